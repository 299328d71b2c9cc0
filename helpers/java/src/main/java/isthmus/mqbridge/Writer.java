package isthmus.mqbridge;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;

/** Writes a message: body, header, properties, each left out where it is empty. */
final class Writer {
    private final MessageBufferPacker packer = MessagePack.newDefaultBufferPacker();

    private Writer() {}

    static byte[] encode(Message message) throws IOException {
        Writer writer = new Writer();
        writer.write(message);
        return writer.packer.toByteArray();
    }

    private void write(Message message) throws IOException {
        int parts = 1 + (message.getBody().length > 0 ? 1 : 0) + (message.properties.isEmpty() ? 0 : 1);
        packer.packMapHeader(parts);
        if (message.getBody().length > 0) {
            text("body");
            value(message.getBody());
        }
        text("header");
        header(message.getHeader());
        if (!message.properties.isEmpty()) {
            text("props");
            packer.packMapHeader(message.properties.size());
            for (Map.Entry<String, Message.Property> entry : message.properties.entrySet()) {
                text(entry.getKey());
                property(entry.getValue());
            }
        }
    }

    private void header(Header header) throws IOException {
        packer.packMapHeader((int) Header.FIELDS.stream().filter(field -> !field.isZero(header)).count());
        for (Header.Field<?> field : Header.FIELDS) {
            if (!field.isZero(header)) {
                text(field.name);
                value(field.get.apply(header));
            }
        }
    }

    private void property(Message.Property property) throws IOException {
        boolean typed = property.type != PropertyType.STRING;
        boolean valued = property.type != PropertyType.NULL;
        packer.packMapHeader((typed ? 1 : 0) + (valued ? 1 : 0));
        if (typed) {
            text("type");
            packer.packInt(property.type.ordinal());
        }
        if (valued) {
            text("value");
            value(property.value);
        }
    }

    private void value(Object value) throws IOException {
        if (value instanceof String) {
            text((String) value);
        } else if (value instanceof byte[]) {
            packer.packBinaryHeader(((byte[]) value).length);
            packer.writePayload((byte[]) value);
        } else if (value instanceof Boolean) {
            packer.packBoolean((Boolean) value);
        } else if (value instanceof Float) {
            packer.packFloat((Float) value);
        } else if (value instanceof Double) {
            packer.packDouble((Double) value);
        } else {
            packer.packLong(((Number) value).longValue());
        }
    }

    private void text(String text) throws IOException {
        ByteBuffer octets = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
        packer.packRawStringHeader(octets.remaining());
        packer.writePayload(octets.array(), octets.arrayOffset(), octets.remaining());
    }
}
