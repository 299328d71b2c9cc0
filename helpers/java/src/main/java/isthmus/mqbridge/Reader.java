package isthmus.mqbridge;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.msgpack.core.MessageFormat;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePackException;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.value.ValueType;

/**
 * Reads a message, tolerantly: unknown keys are ignored, nil is empty, text may stand where bytes are meant and the
 * other way round, numbers may have any width. Everything else is an IOException, and nothing else is thrown. No more
 * memory is asked for than there are bytes.
 */
final class Reader {
    private static final String APPL_ORIG = "appl_orig"; // another helper's name for appl_orig_data

    private final byte[] encoded;
    private final MessageUnpacker unpacker;

    Reader(byte[] encoded) {
        this.encoded = encoded;
        this.unpacker = MessagePack.newDefaultUnpacker(encoded);
    }

    Message message() throws IOException {
        try {
            Message message = new Message();
            for (int left = map(); left > 0; left--) {
                switch (text()) {
                    case "body":
                        message.setBody(octets());
                        break;
                    case "header":
                        header(message.getHeader());
                        break;
                    case "props":
                        properties(message);
                        break;
                    default:
                        unpacker.skipValue();
                }
            }
            if (remaining() > 0) {
                throw new IOException(remaining() + " bytes behind the message");
            }
            return message;
        } catch (MessagePackException error) {
            throw new IOException("not a bridge message: " + error.getMessage(), error);
        }
    }

    private void header(Header header) throws IOException {
        String alias = "";
        for (int left = map(); left > 0; left--) {
            String name = text();
            if (name.equals(APPL_ORIG)) {
                alias = text();
                continue;
            }
            boolean known = false;
            for (Header.Field<?> field : Header.FIELDS) {
                if (field.name.equals(name)) {
                    known = true;
                    read(field, header);
                    break;
                }
            }
            if (!known) {
                unpacker.skipValue();
            }
        }
        if (header.getApplOriginData().isEmpty()) {
            header.setApplOriginData(alias);
        }
    }

    @SuppressWarnings("unchecked")
    private void read(Header.Field<?> field, Header header) throws IOException {
        if (field.zero instanceof Integer) {
            ((Header.Field<Integer>) field).set.accept(header, isNil() ? 0 : unpacker.unpackInt());
        } else if (field.zero instanceof String) {
            ((Header.Field<String>) field).set.accept(header, text());
        } else {
            ((Header.Field<byte[]>) field).set.accept(header, octets());
        }
    }

    private void properties(Message message) throws IOException {
        for (int left = map(); left > 0; left--) {
            String name = text();
            message.properties.put(name, property(name));
        }
    }

    private Message.Property property(String name) throws IOException {
        PropertyType type = PropertyType.STRING;
        Object value = null;
        for (int left = map(); left > 0; left--) {
            switch (text()) {
                case "type":
                    int number = isNil() ? 0 : unpacker.unpackInt();
                    if (number < 0 || number >= PropertyType.values().length) {
                        throw new IOException("property " + name + ": there is no type " + number);
                    }
                    type = PropertyType.values()[number];
                    break;
                case "value":
                    value = value();
                    break;
                default:
                    unpacker.skipValue();
            }
        }
        return new Message.Property(type, value == null ? type.zero : converted(name, type, value));
    }

    /** A value as it stands there: null, Boolean, Long, Double, or bytes, which a text is too until its type is known. */
    private Object value() throws IOException {
        switch (unpacker.getNextFormat().getValueType()) {
            case NIL:
                unpacker.unpackNil();
                return null;
            case BOOLEAN:
                return unpacker.unpackBoolean();
            case INTEGER:
                return unpacker.unpackLong();
            case FLOAT:
                return unpacker.unpackDouble();
            default:
                return octets();
        }
    }

    private static Object converted(String name, PropertyType type, Object value) throws IOException {
        switch (type) {
            case STRING:
                if (value instanceof byte[]) {
                    return decoded((byte[]) value);
                }
                break;
            case FLOAT32:
                if (value instanceof Number) {
                    double wide = ((Number) value).doubleValue();
                    if (Math.abs(wide) <= Float.MAX_VALUE || Double.isInfinite(wide) || Double.isNaN(wide)) {
                        return (float) wide;
                    }
                }
                break;
            case FLOAT64:
                if (value instanceof Number) {
                    return ((Number) value).doubleValue();
                }
                break;
            case INT8:
                if (fits(value, Byte.MIN_VALUE, 255)) { // a byte of the Go helper's is an int8 with the same bits
                    return ((Long) value).byteValue();
                }
                break;
            case INT16:
                if (fits(value, Short.MIN_VALUE, Short.MAX_VALUE)) {
                    return ((Long) value).shortValue();
                }
                break;
            case INT32:
                if (fits(value, Integer.MIN_VALUE, Integer.MAX_VALUE)) {
                    return ((Long) value).intValue();
                }
                break;
            default:
                if (type.javaClass.isInstance(value)) {
                    return value;
                }
        }
        throw new IOException("property " + name + ": a value that " + type + " cannot have");
    }

    private static boolean fits(Object value, long smallest, long largest) {
        return value instanceof Long && (Long) value >= smallest && (Long) value <= largest;
    }

    /** How many entries the next map has; none if it is nil. */
    private int map() throws IOException {
        return isNil() ? 0 : unpacker.unpackMapHeader();
    }

    private String text() throws IOException {
        return decoded(octets());
    }

    private byte[] octets() throws IOException {
        if (isNil()) {
            return new byte[0];
        }
        MessageFormat next = unpacker.getNextFormat();
        int length = next.getValueType() == ValueType.STRING
                ? unpacker.unpackRawStringHeader()
                : unpacker.unpackBinaryHeader();
        if (length > remaining()) {
            throw new IOException("the message ends too early");
        }
        return unpacker.readPayload(length);
    }

    private boolean isNil() throws IOException {
        if (unpacker.getNextFormat() != MessageFormat.NIL) {
            return false;
        }
        unpacker.unpackNil();
        return true;
    }

    private long remaining() {
        return encoded.length - unpacker.getTotalReadBytes();
    }

    private static String decoded(byte[] octets) throws IOException {
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(octets)).toString();
    }
}
