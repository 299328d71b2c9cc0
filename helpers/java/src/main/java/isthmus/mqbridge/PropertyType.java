package isthmus.mqbridge;

/** The types of properties. The wire has their position. */
public enum PropertyType {
    STRING(String.class, ""),
    INT8(Byte.class, (byte) 0),
    INT16(Short.class, (short) 0),
    INT32(Integer.class, 0),
    INT64(Long.class, 0L),
    FLOAT32(Float.class, 0f),
    FLOAT64(Double.class, 0d),
    BOOL(Boolean.class, false),
    BYTES(byte[].class, new byte[0]),
    NULL(Void.class, null);

    /** What a value of this type is in Java. */
    final Class<?> javaClass;

    /** What a property is whose value is absent. */
    final Object zero;

    PropertyType(Class<?> javaClass, Object zero) {
        this.javaClass = javaClass;
        this.zero = zero;
    }
}
