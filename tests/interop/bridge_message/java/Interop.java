import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.msgpack.jackson.dataformat.MessagePackFactory;

/**
 * Writes and reads messages with Jackson for a test: a JSON request on each line of its input, a JSON reply on each
 * line of its output. The classes are the format as a Java program has it.
 */
public class Interop {
    @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
    static class Header {
        @JsonProperty("version") int version;
        @JsonProperty("report") int report;
        @JsonProperty("type") int msgType;
        @JsonProperty("exp") int expiry;
        @JsonProperty("feed") int feedback;
        @JsonProperty("enc") int encoding;
        @JsonProperty("charset") int codedCharSetID;
        @JsonProperty("priority") int priority;
        @JsonProperty("persist") int persistence;
        @JsonProperty("backout") int backoutCount;
        @JsonProperty("appl_type") int putApplType;
        @JsonProperty("seq") int msgSeqNumber;
        @JsonProperty("offset") int offset;
        @JsonProperty("flags") int msgFlags;
        @JsonProperty("orig_length") int originalLength;
        @JsonProperty("msg_id") byte[] msgID;
        @JsonProperty("corr_id") byte[] correlID;
        @JsonProperty("acct_token") byte[] accountingToken;
        @JsonProperty("grp_id") byte[] groupID;
        @JsonProperty("format") String format;
        @JsonProperty("rep_q") String replyToQ;
        @JsonProperty("rep_qmgr") String replyToQMgr;
        @JsonProperty("user_id") String userIdentifier;
        @JsonProperty("appl_id") String applIdentityData;
        @JsonProperty("appl_name") String putApplName;
        @JsonProperty("date") String putDate;
        @JsonProperty("time") String putTime;
        @JsonProperty("appl_orig_data") String applOriginData;
        @JsonProperty("reply_to_channel") String replyToChannel;
    }

    /** The name that the bridge's Java helper has for one of the fields. */
    abstract static class HelperNames {
        @JsonProperty("appl_orig") String applOriginData;
    }

    @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
    static class Property {
        @JsonProperty("type") int type;
        @JsonProperty("value") Object value;
    }

    @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
    static class Message {
        @JsonProperty("header") Header header = new Header();
        @JsonProperty("props") Map<String, Property> properties = new LinkedHashMap<>();
        @JsonProperty("body") byte[] body;
    }

    static final ObjectMapper JSON = new ObjectMapper();
    static final ObjectMapper PLAIN = new ObjectMapper(new MessagePackFactory());
    /** Writes all fields, null ones as nil, with the helper's names; all integers are long and all floats double. */
    static final ObjectMapper HELPER =
            new ObjectMapper(new MessagePackFactory()).addMixIn(Header.class, HelperNames.class);
    /** Leaves out what is null, zero or empty. */
    static final ObjectMapper SPARSE =
            new ObjectMapper(new MessagePackFactory()).setSerializationInclusion(JsonInclude.Include.NON_DEFAULT);

    /** What a program does with a request. */
    interface Answer {
        ObjectNode to(JsonNode request) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        converse(Interop::answer);
    }

    static void converse(Answer answer) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode reply;
            try {
                reply = answer.to(JSON.readTree(line));
            } catch (Exception error) {
                reply = JSON.createObjectNode().put("error", error.toString());
            }
            output.println(JSON.writeValueAsString(reply));
        }
        output.flush();
    }

    static ObjectNode answer(JsonNode request) throws Exception {
        ObjectNode reply = JSON.createObjectNode();
        if (request.has("message")) {
            return reply.put("data", hex(encode(request.get("message"), request.get("dialect").asText())));
        }
        Message message = PLAIN.readValue(octets(request.get("data").asText()), Message.class);
        return reply.set("message", describe(message));
    }

    static byte[] encode(JsonNode described, String dialect) throws Exception {
        Message message = new Message();
        message.body = octets(described.get("body").asText());
        for (Field field : Header.class.getDeclaredFields()) {
            JsonNode text = described.get("header").get(field.getAnnotation(JsonProperty.class).value());
            if (text != null) {
                field.set(message.header, parse(field.getType(), text.asText()));
            }
        }
        for (Map.Entry<String, JsonNode> entry : described.get("props").properties()) {
            Property property = new Property();
            property.type = entry.getValue().get("type").asInt();
            property.value = value(property.type, entry.getValue().get("value").asText(), dialect.equals("helper"));
            message.properties.put(entry.getKey(), property);
        }
        return (dialect.equals("helper") ? HELPER : dialect.equals("sparse") ? SPARSE : PLAIN)
                .writeValueAsBytes(message);
    }

    static Object parse(Class<?> type, String text) {
        return type == int.class ? (Object) Integer.valueOf(text) : type == String.class ? text : octets(text);
    }

    static Object value(int type, String text, boolean widened) {
        switch (type) {
            case 0:
                return text;
            case 1:
                return widened ? (Object) Long.valueOf(text) : Byte.valueOf(text);
            case 2:
                return widened ? (Object) Long.valueOf(text) : Short.valueOf(text);
            case 3:
                return widened ? (Object) Long.valueOf(text) : Integer.valueOf(text);
            case 4:
                return Long.valueOf(text);
            case 5:
                float single = Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
                return widened ? (Object) Double.valueOf(single) : Float.valueOf(single);
            case 6:
                return Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case 7:
                return Boolean.valueOf(text);
            case 8:
                return octets(text);
            default:
                return null;
        }
    }

    static ObjectNode describe(Message message) throws Exception {
        ObjectNode described = JSON.createObjectNode();
        described.put("body", message.body == null ? "" : hex(message.body));
        ObjectNode header = described.putObject("header");
        for (Field field : Header.class.getDeclaredFields()) {
            Object value = field.get(message.header);
            String text = value == null ? "" : value instanceof byte[] ? hex((byte[]) value) : value.toString();
            if (!text.isEmpty() && !(value instanceof Integer && text.equals("0"))) {
                header.put(field.getAnnotation(JsonProperty.class).value(), text);
            }
        }
        ObjectNode properties = described.putObject("props");
        for (Map.Entry<String, Property> entry : message.properties.entrySet()) {
            Property property = entry.getValue();
            properties.putObject(entry.getKey()).put("type", property.type).put("value", text(property));
        }
        return described;
    }

    /** The value as text. A cast fails if a Java program could not use it as one of the declared type. */
    static String text(Property property) {
        switch (property.type) {
            case 0:
                return (String) property.value;
            case 1:
            case 2:
            case 3:
                return Integer.toString((Integer) property.value);
            case 4:
                return Long.toString(((Number) property.value).longValue());
            case 5:
                return String.format("%08x", Float.floatToRawIntBits(((Number) property.value).floatValue()));
            case 6:
                return String.format("%016x", Double.doubleToRawLongBits((Double) property.value));
            case 7:
                return Boolean.toString((Boolean) property.value);
            case 8:
                return hex((byte[]) property.value);
            default:
                return property.value == null ? "" : "not null: " + property.value;
        }
    }

    static String hex(byte[] octets) {
        return HexFormat.of().formatHex(octets);
    }

    static byte[] octets(String digits) {
        return HexFormat.of().parseHex(digits);
    }
}
