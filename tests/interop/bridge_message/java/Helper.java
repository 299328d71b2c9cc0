import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import isthmus.mqbridge.Header;
import isthmus.mqbridge.Message;
import isthmus.mqbridge.PropertyType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;

/** Writes and reads messages for a test, with the helper that comes with the bridge. */
public class Helper {
    public static void main(String[] arguments) throws Exception {
        Interop.converse(Helper::answer);
    }

    static ObjectNode answer(JsonNode request) throws Exception {
        ObjectNode reply = Interop.JSON.createObjectNode();
        if (request.has("message")) {
            return reply.put("data", Interop.hex(encode(request.get("message"))));
        }
        return reply.set("message", describe(Message.DecodeMessage(Interop.octets(request.get("data").asText()))));
    }

    static byte[] encode(JsonNode described) throws Exception {
        Message message = Message.NewMessageWithBody(Interop.octets(described.get("body").asText()));
        for (Field field : Interop.Header.class.getDeclaredFields()) {
            JsonNode text = described.get("header").get(field.getAnnotation(JsonProperty.class).value());
            if (text != null) {
                accessor("set", field).invoke(message.getHeader(), Interop.parse(field.getType(), text.asText()));
            }
        }
        for (Map.Entry<String, JsonNode> entry : described.get("props").properties()) {
            int type = entry.getValue().get("type").asInt();
            set(message, entry.getKey(), Interop.value(type, entry.getValue().get("value").asText(), false));
        }
        return message.encode();
    }

    static void set(Message message, String name, Object value) {
        if (value == null) {
            message.setNullProperty(name);
        } else if (value instanceof String) {
            message.setStringProperty(name, (String) value);
        } else if (value instanceof Byte) {
            message.setByteProperty(name, (Byte) value);
        } else if (value instanceof Short) {
            message.setShortProperty(name, (Short) value);
        } else if (value instanceof Integer) {
            message.setIntProperty(name, (Integer) value);
        } else if (value instanceof Long) {
            message.setLongProperty(name, (Long) value);
        } else if (value instanceof Float) {
            message.setFloatProperty(name, (Float) value);
        } else if (value instanceof Double) {
            message.setDoubleProperty(name, (Double) value);
        } else if (value instanceof Boolean) {
            message.setBooleanProperty(name, (Boolean) value);
        } else {
            message.setBytesProperty(name, (byte[]) value);
        }
    }

    static ObjectNode describe(Message message) throws Exception {
        ObjectNode described = Interop.JSON.createObjectNode();
        described.put("body", Interop.hex(message.getBody()));
        ObjectNode header = described.putObject("header");
        for (Field field : Interop.Header.class.getDeclaredFields()) {
            Object value = accessor("get", field).invoke(message.getHeader());
            String text = value instanceof byte[] ? Interop.hex((byte[]) value) : value.toString();
            if (!text.isEmpty() && !value.equals(0)) {
                header.put(field.getAnnotation(JsonProperty.class).value(), text);
            }
        }
        ObjectNode properties = described.putObject("props");
        for (String name : message.getPropertyNames()) {
            PropertyType type = message.getPropertyType(name);
            properties.putObject(name).put("type", type.ordinal()).put("value", text(message, name, type));
        }
        return described;
    }

    static String text(Message message, String name, PropertyType type) {
        switch (type) {
            case STRING:
                return message.getStringProperty(name);
            case INT8:
                return Byte.toString(message.getByteProperty(name));
            case INT16:
                return Short.toString(message.getShortProperty(name));
            case INT32:
                return Integer.toString(message.getIntProperty(name));
            case INT64:
                return Long.toString(message.getLongProperty(name));
            case FLOAT32:
                return String.format("%08x", Float.floatToRawIntBits(message.getFloatProperty(name)));
            case FLOAT64:
                return String.format("%016x", Double.doubleToRawLongBits(message.getDoubleProperty(name)));
            case BOOL:
                return Boolean.toString(message.getBooleanProperty(name));
            case BYTES:
                return Interop.hex(message.getBytesProperty(name));
            default:
                return message.getProperty(name) == null ? "" : "not null";
        }
    }

    static Method accessor(String kind, Field field) throws Exception {
        String name = kind + Character.toUpperCase(field.getName().charAt(0)) + field.getName().substring(1);
        return kind.equals("get") ? Header.class.getMethod(name) : Header.class.getMethod(name, field.getType());
    }
}
