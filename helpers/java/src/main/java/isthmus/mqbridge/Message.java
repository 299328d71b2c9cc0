package isthmus.mqbridge;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Set;

/**
 * An MQ message as NATS applications have it: a body, the fields of the MQMD, and typed properties.
 *
 * <pre>
 * Message request = Message.NewMessageWithBody("an order".getBytes(UTF_8));
 * request.getHeader().setReplyToQ("ORDERS.REPLY");
 * request.setByteProperty("attempt", (byte) 3);
 * connection.publish("orders", request.encode());
 *
 * Message received = Message.DecodeMessage(data);
 * byte attempt = received.getByteProperty("attempt");
 * </pre>
 *
 * A getter takes its own type only, and throws {@link NoSuchElementException} for a property of another type as for one
 * that is absent.
 */
public final class Message {
    static final class Property {
        final PropertyType type;
        final Object value;

        Property(PropertyType type, Object value) {
            this.type = type;
            this.value = value;
        }
    }

    final Map<String, Property> properties = new LinkedHashMap<>();
    private final Header header = new Header();
    private byte[] body = {};

    Message() {}

    /** A message with a body and an empty header. The bytes are not copied. */
    public static Message NewMessageWithBody(byte[] body) {
        Message message = new Message();
        message.setBody(body);
        return message;
    }

    /**
     * The message that the bytes are.
     *
     * @throws IOException if they are none, whatever they are
     */
    public static Message DecodeMessage(byte[] encoded) throws IOException {
        return new Reader(encoded).message();
    }

    /**
     * The message as bytes.
     *
     * @throws IOException if a text cannot be written as UTF-8
     */
    public byte[] encode() throws IOException {
        return Writer.encode(this);
    }

    public Header getHeader() {
        return header;
    }

    /** The body; empty where there is none. */
    public byte[] getBody() {
        return body;
    }

    public void setBody(byte[] body) {
        this.body = body == null ? new byte[0] : body;
    }

    /** The body as text; what is not UTF-8 in it is replaced. */
    public String getBodyAsUTF8String() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** Whether there is a property of that name; a null one is there. */
    public boolean hasProperty(String name) {
        return properties.containsKey(name);
    }

    /** Remove a property; false if there was none. */
    public boolean deleteProperty(String name) {
        return properties.remove(name) != null;
    }

    public Set<String> getPropertyNames() {
        return Collections.unmodifiableSet(properties.keySet());
    }

    /**
     * @throws NoSuchElementException if there is no such property
     */
    public PropertyType getPropertyType(String name) {
        return property(name).type;
    }

    /**
     * The value, as String, Byte, Short, Integer, Long, Float, Double, Boolean, byte[], or null.
     *
     * @throws NoSuchElementException if there is no such property
     */
    public Object getProperty(String name) {
        return property(name).value;
    }

    public void setStringProperty(String name, String value) {
        set(name, PropertyType.STRING, value);
    }

    public String getStringProperty(String name) {
        return (String) get(name, PropertyType.STRING);
    }

    public void setByteProperty(String name, byte value) {
        set(name, PropertyType.INT8, value);
    }

    public byte getByteProperty(String name) {
        return (Byte) get(name, PropertyType.INT8);
    }

    public void setShortProperty(String name, short value) {
        set(name, PropertyType.INT16, value);
    }

    public short getShortProperty(String name) {
        return (Short) get(name, PropertyType.INT16);
    }

    public void setIntProperty(String name, int value) {
        set(name, PropertyType.INT32, value);
    }

    public int getIntProperty(String name) {
        return (Integer) get(name, PropertyType.INT32);
    }

    public void setLongProperty(String name, long value) {
        set(name, PropertyType.INT64, value);
    }

    public long getLongProperty(String name) {
        return (Long) get(name, PropertyType.INT64);
    }

    public void setFloatProperty(String name, float value) {
        set(name, PropertyType.FLOAT32, value);
    }

    public float getFloatProperty(String name) {
        return (Float) get(name, PropertyType.FLOAT32);
    }

    public void setDoubleProperty(String name, double value) {
        set(name, PropertyType.FLOAT64, value);
    }

    public double getDoubleProperty(String name) {
        return (Double) get(name, PropertyType.FLOAT64);
    }

    public void setBooleanProperty(String name, boolean value) {
        set(name, PropertyType.BOOL, value);
    }

    public boolean getBooleanProperty(String name) {
        return (Boolean) get(name, PropertyType.BOOL);
    }

    /** The bytes are not copied. */
    public void setBytesProperty(String name, byte[] value) {
        set(name, PropertyType.BYTES, value);
    }

    public byte[] getBytesProperty(String name) {
        return (byte[]) get(name, PropertyType.BYTES);
    }

    /** Store a property without a value. */
    public void setNullProperty(String name) {
        properties.put(Objects.requireNonNull(name), new Property(PropertyType.NULL, null));
    }

    private void set(String name, PropertyType type, Object value) {
        Objects.requireNonNull(value, "a property without a value is set by setNullProperty");
        properties.put(Objects.requireNonNull(name), new Property(type, value));
    }

    private Object get(String name, PropertyType type) {
        Property property = property(name);
        if (property.type != type) {
            throw new NoSuchElementException("property " + name + " is " + property.type + ", not " + type);
        }
        return property.value;
    }

    private Property property(String name) {
        Property property = properties.get(name);
        if (property == null) {
            throw new NoSuchElementException("there is no property " + name);
        }
        return property;
    }
}
