import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.proton.Proton;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.amqp.messaging.Accepted;
import org.apache.qpid.proton.amqp.messaging.Target;
import org.apache.qpid.proton.engine.Collector;
import org.apache.qpid.proton.engine.Delivery;
import org.apache.qpid.proton.engine.EndpointState;
import org.apache.qpid.proton.engine.Event;
import org.apache.qpid.proton.engine.Link;
import org.apache.qpid.proton.engine.Receiver;
import org.apache.qpid.proton.engine.Transport;

/**
 * Sends one message of every kind with Qpid JMS to a listener on this machine, and writes the bytes of each as they
 * arrived: one file a message. See README.md beside this file.
 */
public final class CaptureQpidJms {
    private static final LinkedBlockingQueue<byte[]> ARRIVED = new LinkedBlockingQueue<>();
    private static Path folder;

    public static void main(String[] arguments) throws Exception {
        folder = Path.of(arguments[0]);
        try (ServerSocket listener = new ServerSocket(0, 8, InetAddress.getLoopbackAddress())) {
            Thread acceptor = new Thread(() -> accept(listener));
            acceptor.setDaemon(true);
            acceptor.start();
            String uri = "amqp://127.0.0.1:" + listener.getLocalPort() + "?amqp.saslLayer=false";
            try (Connection connection = new JmsConnectionFactory("alice", "secret",
                    uri + "&jms.populateJMSXUserID=true").createConnection()) {
                captureMessages(connection.createSession());
            }
            try (Connection connection = new JmsConnectionFactory(
                    uri + "&jms.messageIDPolicy.messageIDType=UUID").createConnection()) {
                Session session = connection.createSession();
                capture("id_uuid", session, session.createQueue("orders"), session.createTextMessage("uuid"));
            }
        }
    }

    private static void captureMessages(Session session) throws Exception {
        Destination queue = session.createQueue("orders");
        Destination topic = session.createTopic("prices");

        TextMessage text = session.createTextMessage("Grüße, 世界");
        text.setJMSCorrelationID("order-4711");
        text.setJMSReplyTo(session.createQueue("answers"));
        text.setJMSType("greeting");
        text.setStringProperty("JMSXGroupID", "group-1");
        text.setIntProperty("JMSXGroupSeq", 3);
        text.setStringProperty("region", "EU");
        MessageProducer producer = session.createProducer(queue);
        producer.setPriority(7);
        producer.setTimeToLive(3_600_000);
        producer.setDeliveryDelay(60_000);
        producer.send(text);
        write("text_every_header");

        capture("text", session, queue, session.createTextMessage("hello"));
        capture("text_empty", session, queue, session.createTextMessage(""));
        capture("text_null", session, queue, session.createTextMessage(null));
        capture("text_large", session, queue, session.createTextMessage("0123456789".repeat(100)));
        capture("message", session, queue, session.createMessage());

        TextMessage price = session.createTextMessage("12.50");
        price.setJMSReplyTo(session.createTemporaryQueue());
        MessageProducer ticker = session.createProducer(topic);
        ticker.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        ticker.send(price);
        write("topic_non_persistent_reply_to_temporary_queue");

        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, 2, (byte) 0xfe, (byte) 0xff});
        capture("bytes", session, queue, bytes);
        capture("bytes_empty", session, queue, session.createBytesMessage());

        MapMessage map = session.createMapMessage();
        map.setBoolean("boolean", true);
        map.setByte("byte", (byte) -7);
        map.setShort("short", (short) -300);
        map.setChar("char", 'ß');
        map.setInt("int", -70_000);
        map.setLong("long", -5_000_000_000L);
        map.setFloat("float", 1.5f);
        map.setDouble("double", -2.25);
        map.setString("string", "text");
        map.setString("null", null);
        map.setBytes("bytes", new byte[] {1, 2, 3});
        capture("map", session, queue, map);
        capture("map_empty", session, queue, session.createMapMessage());

        StreamMessage stream = session.createStreamMessage();
        stream.writeBoolean(false);
        stream.writeByte((byte) 7);
        stream.writeShort((short) 300);
        stream.writeChar('x');
        stream.writeInt(70_000);
        stream.writeLong(5_000_000_000L);
        stream.writeFloat(-0.5f);
        stream.writeDouble(1e100);
        stream.writeString("text");
        stream.writeObject(null);
        stream.writeBytes(new byte[] {9, 8});
        capture("stream", session, queue, stream);
        capture("stream_empty", session, queue, session.createStreamMessage());

        LinkedHashMap<String, Integer> object = new LinkedHashMap<>();
        object.put("one", 1);
        capture("object_serialized", session, queue, session.createObjectMessage(object));
        ObjectMessage typed = session.createObjectMessage();
        typed.setBooleanProperty("JMS_AMQP_TYPED_ENCODING", true);
        typed.setObject(object);
        capture("object_typed", session, queue, typed);

        Message properties = session.createTextMessage("properties");
        properties.setBooleanProperty("aBoolean", true);
        properties.setByteProperty("aByte", Byte.MIN_VALUE);
        properties.setShortProperty("aShort", Short.MIN_VALUE);
        properties.setIntProperty("anInt", Integer.MIN_VALUE);
        properties.setIntProperty("aSmallInt", 5);
        properties.setLongProperty("aLong", Long.MIN_VALUE);
        properties.setLongProperty("aSmallLong", -5);
        properties.setFloatProperty("aFloat", 3.14f);
        properties.setDoubleProperty("aDouble", Math.PI);
        properties.setStringProperty("aString", "Zeichen");
        properties.setStringProperty("anEmptyString", "");
        properties.setObjectProperty("aNull", null);
        capture("every_property_type", session, queue, properties);

        String[][] correlations = {
            {"string", "ID:another-message"},
            {"uuid", "ID:AMQP_UUID:bf2c1b6e-5b5a-4a69-9a5b-3f4c2d1e0f6a"},
            {"ulong", "ID:AMQP_ULONG:18446744073709551615"},
            {"binary", "ID:AMQP_BINARY:00FF10"},
        };
        for (String[] correlation : correlations) {
            Message message = session.createTextMessage("correlated");
            message.setJMSCorrelationID(correlation[1]);
            capture("correlation_" + correlation[0], session, queue, message);
        }

        TextMessage typical = session.createTextMessage("{\"order\":4711,\"items\":[{\"sku\":\"A-100\",\"count\":2}]}");
        for (int i = 0; i < 10; i++) {
            typical.setStringProperty("property" + i, "the value of property " + i);
        }
        capture("text_ten_properties", session, queue, typical);
    }

    private static void capture(String name, Session session, Destination destination, Message message)
            throws Exception {
        try (MessageProducer producer = session.createProducer(destination)) {
            producer.send(message);
        }
        write(name);
    }

    private static void write(String name) throws Exception {
        byte[] bytes = ARRIVED.poll(10, TimeUnit.SECONDS);
        if (bytes == null) {
            throw new IllegalStateException("nothing arrived for " + name);
        }
        Files.write(folder.resolve(name + ".amqp"), bytes);
    }

    private static void accept(ServerSocket listener) {
        while (true) {
            try (Socket socket = listener.accept()) {
                serve(socket);
            } catch (Exception error) {
                if (listener.isClosed()) {
                    return;
                }
                error.printStackTrace();
            }
        }
    }

    /** Opens what the client opens, grants credit, accepts every delivery, until the client hangs up. */
    private static void serve(Socket socket) throws Exception {
        Transport transport = Proton.transport();
        org.apache.qpid.proton.engine.Connection connection = Proton.connection();
        Collector collector = Proton.collector();
        connection.collect(collector);
        transport.bind(connection);
        byte[] buffer = new byte[65_536];
        int length;
        while ((length = socket.getInputStream().read(buffer)) >= 0) {
            ByteBuffer input = ByteBuffer.wrap(buffer, 0, length);
            while (input.hasRemaining()) {
                ByteBuffer tail = transport.tail();
                while (input.hasRemaining() && tail.hasRemaining()) {
                    tail.put(input.get());
                }
                transport.process();
            }
            for (Event event = collector.peek(); event != null; event = collector.peek()) {
                handle(event);
                collector.pop();
            }
            while (transport.pending() > 0) {
                byte[] output = new byte[transport.pending()];
                transport.head().get(output);
                transport.pop(output.length);
                socket.getOutputStream().write(output);
            }
        }
    }

    private static void handle(Event event) {
        switch (event.getType()) {
            case CONNECTION_REMOTE_OPEN -> {
                event.getConnection().setContainer("capture");
                event.getConnection().setOfferedCapabilities(new Symbol[] {
                    Symbol.valueOf("ANONYMOUS-RELAY"), Symbol.valueOf("DELAYED_DELIVERY")});
                event.getConnection().open();
            }
            case SESSION_REMOTE_OPEN -> event.getSession().open();
            case LINK_REMOTE_OPEN -> {
                Link link = event.getLink();
                if (link.getRemoteTarget() instanceof Target target) {
                    if (target.getDynamic()) {
                        target.setAddress("temporary-1");
                    }
                    link.setTarget(target);
                }
                link.setSource(link.getRemoteSource());
                link.open();
                if (link instanceof Receiver receiver) {
                    receiver.flow(100);
                }
            }
            case DELIVERY -> {
                Delivery delivery = event.getDelivery();
                if (delivery.getLink() instanceof Receiver receiver && delivery.isReadable() && !delivery.isPartial()) {
                    byte[] bytes = new byte[delivery.pending()];
                    receiver.recv(bytes, 0, bytes.length);
                    receiver.advance();
                    delivery.disposition(Accepted.getInstance());
                    delivery.settle();
                    ARRIVED.add(bytes);
                }
            }
            case LINK_REMOTE_CLOSE -> event.getLink().close();
            case SESSION_REMOTE_CLOSE -> event.getSession().close();
            case CONNECTION_REMOTE_CLOSE -> event.getConnection().close();
            default -> { }
        }
    }
}
