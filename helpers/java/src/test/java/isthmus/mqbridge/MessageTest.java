package isthmus.mqbridge;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.NoSuchElementException;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;

class MessageTest {
    private static Message full() {
        Message message = Message.NewMessageWithBody(new byte[] {0, -1});
        message.getHeader().setPriority(4);
        message.getHeader().setMsgID(new byte[] {0, 1});
        message.getHeader().setReplyToChannel("answers");
        message.setStringProperty("string", "grüße");
        message.setByteProperty("byte", (byte) -1);
        message.setShortProperty("short", (short) -300);
        message.setIntProperty("int", 1 << 20);
        message.setLongProperty("long", 1L << 40);
        message.setFloatProperty("float", 1.5f);
        message.setDoubleProperty("double", 0.1);
        message.setBooleanProperty("boolean", false);
        message.setBytesProperty("bytes", new byte[] {0, -1});
        message.setNullProperty("null");
        return message;
    }

    @Test
    void everyTypeSurvives() throws IOException {
        Message message = Message.DecodeMessage(full().encode());
        assertArrayEquals(new byte[] {0, -1}, message.getBody());
        assertEquals(4, message.getHeader().getPriority());
        assertArrayEquals(new byte[] {0, 1}, message.getHeader().getMsgID());
        assertEquals("answers", message.getHeader().getReplyToChannel());
        assertEquals("", message.getHeader().getFormat());
        assertEquals("grüße", message.getStringProperty("string"));
        assertEquals(-1, message.getByteProperty("byte"));
        assertEquals(-300, message.getShortProperty("short"));
        assertEquals(1 << 20, message.getIntProperty("int"));
        assertEquals(1L << 40, message.getLongProperty("long"));
        assertEquals(1.5f, message.getFloatProperty("float"));
        assertEquals(0.1, message.getDoubleProperty("double"));
        assertFalse(message.getBooleanProperty("boolean"));
        assertArrayEquals(new byte[] {0, -1}, message.getBytesProperty("bytes"));
        assertTrue(message.hasProperty("null"));
        assertEquals(PropertyType.NULL, message.getPropertyType("null"));
        assertEquals(10, message.getPropertyNames().size());
    }

    @Test
    void aGetterTakesItsOwnTypeOnly() {
        Message message = full();
        assertThrows(NoSuchElementException.class, () -> message.getIntProperty("long"));
        assertThrows(NoSuchElementException.class, () -> message.getBytesProperty("string"));
        assertThrows(NoSuchElementException.class, () -> message.getStringProperty("absent"));
        assertThrows(NoSuchElementException.class, () -> message.getStringProperty("null"));
        assertTrue(message.deleteProperty("long"));
        assertFalse(message.deleteProperty("long"));
    }

    @Test
    void nilIsEmptyAndUnknownKeysAreIgnored() throws IOException {
        MessageBufferPacker packer = MessagePack.newDefaultBufferPacker();
        packer.packMapHeader(4).packString("header").packMapHeader(3);
        packer.packString("appl_orig").packString("java").packString("msg_id").packNil();
        packer.packString("invented").packArrayHeader(2).packInt(1).packInt(2);
        packer.packString("props").packMapHeader(3);
        packer.packString("more").packMapHeader(1).packString("type").packInt(3);
        packer.packString("byte").packMapHeader(2).packString("value").packInt(200).packString("type").packInt(1);
        packer.packString("whole").packMapHeader(2).packString("type").packInt(6).packString("value").packInt(2);
        packer.packString("body").packString("a string").packString("new").packNil();
        Message message = Message.DecodeMessage(packer.toByteArray());
        assertEquals("a string", message.getBodyAsUTF8String());
        assertEquals("java", message.getHeader().getApplOriginData());
        assertEquals(0, message.getIntProperty("more"));
        assertEquals(-56, message.getByteProperty("byte"));
        assertEquals(2.0, message.getDoubleProperty("whole"));
    }

    @Test
    void anythingElseIsAnIOException() throws IOException {
        byte[] whole = full().encode();
        Random random = new Random(7);
        for (int round = 0; round < 20_000; round++) {
            byte[] data = Arrays.copyOf(whole, random.nextInt(whole.length + 8));
            for (int change = random.nextInt(4); change > 0 && data.length > 0; change--) {
                data[random.nextInt(data.length)] = (byte) random.nextInt();
            }
            try {
                Message.DecodeMessage(data).encode();
            } catch (IOException expected) {
                continue; // and nothing else is thrown
            }
        }
        assertThrows(IOException.class, () -> Message.DecodeMessage(new byte[0]));
        assertThrows(IOException.class, () -> Message.DecodeMessage("plain text".getBytes()));
        // A claim of 2 GiB asks for no memory.
        assertThrows(
                IOException.class,
                () -> Message.DecodeMessage(
                        new byte[] {(byte) 0x81, (byte) 0xa4, 'b', 'o', 'd', 'y', (byte) 0xc6, 127, -1, -1, -1}));
    }

    @Test
    void aTextThatIsNoUnicodeIsRefused() {
        Message message = Message.NewMessageWithBody(null);
        message.setStringProperty("p", "\ud800");
        assertThrows(IOException.class, message::encode);
        assertThrows(NullPointerException.class, () -> message.setStringProperty("p", null));
    }
}
