import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Sends with Qpid JMS as its arguments say: URL, what, address, how many. Prints "done", or what went wrong. */
public final class Sends {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        if (arguments.length > 4) {
            factory.setUsername(arguments[4]);
            factory.setPassword(arguments[5]);
        }
        try (Connection connection = factory.createConnection()) {
            connection.start();
            switch (arguments[1]) {
                case "kinds" -> kinds(connection, address);
                case "sync" -> sync(connection, address, count);
                case "async" -> async(connection, address, count);
                case "commit" -> transacted(connection, address, count, true);
                case "rollback" -> transacted(connection, address, count, false);
                case "topic" -> publish(connection, address, count, Session.AUTO_ACKNOWLEDGE);
                case "topic-commit" -> publish(connection, address, count, Session.SESSION_TRANSACTED);
                case "anonymous" -> anonymous(connection, address, count);
                case "hang" -> hang(connection, address, count);
                default -> throw new IllegalArgumentException(arguments[1]);
            }
            System.out.println("done");
        } catch (jakarta.jms.JMSException problem) {
            System.out.println(problem.getClass().getSimpleName() + ": " + problem.getMessage());
        }
    }

    private static void kinds(Connection connection, String address) throws Exception {
        Session session = connection.createSession();
        MessageProducer producer = session.createProducer(session.createQueue(address));
        TextMessage text = session.createTextMessage("Grüße");
        text.setStringProperty("region", "EU");
        text.setLongProperty("count", 7L);
        text.setJMSCorrelationID("order-1");
        producer.send(text);
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, (byte) 0xff});
        producer.send(bytes);
        MapMessage map = session.createMapMessage();
        map.setInt("number", 5);
        map.setString("name", "x");
        producer.send(map);
        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(1);
        stream.writeString("two");
        producer.send(stream);
        producer.send(session.createObjectMessage("serialized"));
        producer.send(session.createMessage());
    }

    private static void sync(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageProducer producer = session.createProducer(session.createQueue(address));
        long start = System.nanoTime();
        for (int n = 0; n < count; n++) {
            producer.send(session.createTextMessage("message " + n));
        }
        rate(start, count);
    }

    private static void async(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageProducer producer = session.createProducer(session.createQueue(address));
        CountDownLatch pending = new CountDownLatch(count);
        AtomicInteger failed = new AtomicInteger();
        CompletionListener listener = new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                pending.countDown();
            }

            @Override
            public void onException(Message message, Exception problem) {
                failed.incrementAndGet();
                pending.countDown();
            }
        };
        long start = System.nanoTime();
        for (int n = 0; n < count; n++) {
            producer.send(session.createTextMessage("message " + n), listener);
        }
        if (!pending.await(60, TimeUnit.SECONDS)) {
            System.out.println("pending " + pending.getCount());
        }
        rate(start, count);
        System.out.println("failed " + failed.get());
    }

    private static void transacted(Connection connection, String address, int count, boolean commit)
            throws Exception {
        Session session = connection.createSession(Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(address));
        for (int n = 0; n < count; n++) {
            producer.send(session.createTextMessage("message " + n));
        }
        if (commit) {
            session.commit();
        } else {
            session.rollback();
        }
    }

    private static void publish(Connection connection, String address, int count, int mode) throws Exception {
        Session session = connection.createSession(mode);
        MessageProducer producer = session.createProducer(session.createTopic(address));
        for (int n = 0; n < count; n++) {
            TextMessage text = session.createTextMessage("message " + n);
            text.setJMSCorrelationID("c-" + n);
            producer.send(text);
        }
        if (mode == Session.SESSION_TRANSACTED) {
            session.commit();
        }
    }

    private static void anonymous(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageProducer producer = session.createProducer(null);
        for (int n = 0; n < count; n++) {
            Queue queue = session.createQueue(address + "." + n % 2);
            producer.send(queue, session.createTextMessage("message " + n));
        }
    }

    private static void hang(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession(Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue(address));
        for (int n = 0; n < count; n++) {
            producer.send(session.createTextMessage("message " + n));
        }
        System.out.println("sent");
        Thread.sleep(60_000);
    }

    private static void rate(long start, int count) {
        System.out.println("rate " + Math.round(count * 1e9 / (System.nanoTime() - start)));
    }
}
