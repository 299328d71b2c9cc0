import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A walk through what a JMS message has: "send" sends it with Qpid JMS, "receive" prints what came of it. */
public final class Walk {
    private static final int PATIENCE_MS = 100_000;

    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(Session.DUPS_OK_ACKNOWLEDGE);
            Queue queue = session.createQueue(arguments[2]);
            if (arguments[1].equals("send")) {
                send(session, queue);
            } else {
                MessageConsumer consumer = session.createConsumer(queue);
                for (int n = 0; n < Integer.parseInt(arguments[3]); n++) {
                    describe(consumer.receive(PATIENCE_MS));
                }
            }
            System.out.println("done");
        }
    }

    private static void send(Session session, Queue queue) throws Exception {
        MessageProducer producer = session.createProducer(queue);
        TextMessage text = session.createTextMessage("Grüße");
        text.setBooleanProperty("boolean", true);
        text.setByteProperty("byte", (byte) -1);
        text.setShortProperty("short", (short) -2);
        text.setIntProperty("int", -3);
        text.setLongProperty("long", Long.MIN_VALUE);
        text.setFloatProperty("float", 1.5f);
        text.setDoubleProperty("double", 0.1);
        text.setStringProperty("string", "ü");
        text.setJMSCorrelationID("order-1");
        text.setJMSType("greeting");
        text.setJMSReplyTo(session.createQueue("answers"));
        text.setStringProperty("JMSXGroupID", "group");
        text.setIntProperty("JMSXGroupSeq", 7);
        producer.send(text, DeliveryMode.NON_PERSISTENT, 8, 3_600_000);

        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, (byte) 0xff});
        producer.send(bytes);

        BytesMessage readable = session.createBytesMessage();
        readable.writeBytes("AB".getBytes(StandardCharsets.UTF_8));
        producer.send(readable);

        MapMessage map = session.createMapMessage();
        map.setInt("int", 5);
        map.setString("string", "x");
        map.setBytes("bytes", new byte[] {9});
        map.setChar("char", 'ü');
        producer.send(map);

        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(1);
        stream.writeString("two");
        stream.writeDouble(3.0);
        producer.send(stream);

        producer.send(session.createObjectMessage(new ArrayList<>(List.of("an", "object"))));
        producer.send(session.createMessage());
    }

    private static void describe(Message message) throws Exception {
        if (message == null) {
            System.out.println("nothing came");
        } else if (message instanceof TextMessage text) {
            System.out.println("text " + text.getText());
        } else if (message instanceof BytesMessage bytes) {
            System.out.println("bytes " + Arrays.toString(bytes.getBody(byte[].class)));
        } else if (message instanceof MapMessage map) {
            System.out.println("map " + map.getInt("int") + " " + map.getString("string") + " "
                    + Arrays.toString(map.getBytes("bytes")) + " " + map.getChar("char"));
        } else if (message instanceof StreamMessage stream) {
            System.out.println("stream " + stream.readInt() + " " + stream.readString() + " " + stream.readDouble());
        } else if (message instanceof ObjectMessage object) {
            System.out.println("object " + object.getObject());
        } else {
            System.out.println("message");
        }
        if (message instanceof TextMessage) {
            headers(message);
        }
    }

    private static void headers(Message message) throws Exception {
        System.out.println("mode " + (message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT ? "persistent" : "not"));
        System.out.println("priority " + message.getJMSPriority());
        System.out.println("expires after " + (message.getJMSExpiration() - message.getJMSTimestamp()));
        System.out.println("correlation " + message.getJMSCorrelationID() + ", type " + message.getJMSType());
        System.out.println("reply to " + message.getJMSReplyTo() + ", sent to " + message.getJMSDestination());
        System.out.println("group " + message.getStringProperty("JMSXGroupID") + " "
                + message.getIntProperty("JMSXGroupSeq"));
        System.out.println("delivery " + message.getIntProperty("JMSXDeliveryCount") + " "
                + message.getJMSRedelivered());
        List<String> names = new ArrayList<>();
        for (Enumeration<?> each = message.getPropertyNames(); each.hasMoreElements();) {
            String name = each.nextElement().toString();
            if (!name.startsWith("JMS")) {
                names.add(name);
            }
        }
        Collections.sort(names);
        for (String name : names) {
            Object value = message.getObjectProperty(name);
            System.out.println(name + " " + value.getClass().getSimpleName() + " " + value);
        }
    }
}
