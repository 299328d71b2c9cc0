import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.Enumeration;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Receives with Qpid JMS as its arguments say: URL, what, address, how many. Prints bodies, and "done". */
public final class Receives {
    private static final int PATIENCE_MS = 100_000;

    public static void main(String[] arguments) throws Exception {
        String address = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        if (arguments.length > 4) {
            factory.setClientID(arguments[4]);
        }
        try (Connection connection = factory.createConnection()) {
            connection.start();
            switch (arguments[1]) {
                case "queue" -> queue(connection, address, count, Session.AUTO_ACKNOWLEDGE);
                case "client-ack" -> queue(connection, address, count, Session.CLIENT_ACKNOWLEDGE);
                case "recover" -> recover(connection, address);
                case "rollback" -> rollback(connection, address);
                case "browse" -> browse(connection, address);
                case "no-wait" -> noWait(connection, address);
                case "topic" -> topic(connection, address, count);
                case "selected" -> selected(connection, address, count);
                case "red", "blue" -> colour(connection, address, count, arguments[1]);
                case "no-local" -> noLocal(connection, address, count);
                case "rate" -> rate(connection, address, count);
                case "durable" -> durable(connection, address, count);
                case "shared" -> shared(connection, address, count);
                case "unsubscribe" -> connection.createSession().unsubscribe(address);
                case "temporary" -> temporary(connection);
                default -> throw new IllegalArgumentException(arguments[1]);
            }
            System.out.println("done");
        } catch (jakarta.jms.JMSException problem) {
            System.out.println(problem.getClass().getSimpleName() + ": " + problem.getMessage());
        }
    }

    private static void queue(Connection connection, String address, int count, int mode) throws Exception {
        Session session = connection.createSession(mode);
        MessageConsumer consumer = session.createConsumer(session.createQueue(address));
        System.out.println("ready");
        Message last = take(consumer, count);
        if (mode == Session.CLIENT_ACKNOWLEDGE && last != null) {
            last.acknowledge();
        }
    }

    private static void recover(Connection connection, String address) throws Exception {
        Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(address));
        tell(consumer.receive(PATIENCE_MS));
        session.recover();
        Message again = consumer.receive(PATIENCE_MS);
        tell(again);
        again.acknowledge();
    }

    private static void rollback(Connection connection, String address) throws Exception {
        Session session = connection.createSession(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue(address));
        tell(consumer.receive(PATIENCE_MS));
        session.rollback();
        tell(consumer.receive(PATIENCE_MS));
        session.commit();
    }

    private static void browse(Connection connection, String address) throws Exception {
        Session session = connection.createSession();
        try (QueueBrowser browser = session.createBrowser(session.createQueue(address))) {
            for (Enumeration<?> each = browser.getEnumeration(); each.hasMoreElements();) {
                System.out.println(((TextMessage) each.nextElement()).getText());
            }
        }
    }

    private static void noWait(Connection connection, String address) throws Exception {
        Session session = connection.createSession();
        MessageConsumer consumer = session.createConsumer(session.createQueue(address));
        System.out.println(consumer.receiveNoWait() == null ? "nothing" : "something");
    }

    private static void topic(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageConsumer consumer = session.createConsumer(session.createTopic(address));
        System.out.println("ready");
        take(consumer, count);
    }

    private static void selected(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageConsumer consumer = session.createConsumer(session.createTopic(address), "JMS_kafka_offset > 1");
        System.out.println("ready");
        take(consumer, count);
    }

    private static void colour(Connection connection, String address, int count, String colour) throws Exception {
        Session session = connection.createSession();
        MessageConsumer consumer =
                session.createConsumer(session.createQueue(address), "colour = '" + colour + "'");
        System.out.println("ready");
        take(consumer, count);
    }

    private static void noLocal(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        Topic topic = session.createTopic(address);
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        session.createProducer(topic).send(session.createTextMessage("own"));
        System.out.println("ready");
        take(consumer, count);
    }

    private static void rate(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageConsumer consumer = session.createConsumer(session.createQueue(address));
        consumer.receive(PATIENCE_MS);
        long start = System.nanoTime();
        for (int n = 1; n < count; n++) {
            if (consumer.receive(PATIENCE_MS) == null) {
                System.out.println("nothing came after " + n);
                return;
            }
        }
        System.out.println("rate " + Math.round(count * 1e9 / (System.nanoTime() - start)));
    }

    private static void durable(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        Topic topic = session.createTopic(address);
        try (MessageConsumer consumer = session.createDurableConsumer(topic, "news")) {
            System.out.println("ready");
            take(consumer, count);
        }
    }

    private static void shared(Connection connection, String address, int count) throws Exception {
        Session session = connection.createSession();
        MessageConsumer consumer = session.createSharedDurableConsumer(session.createTopic(address), "news");
        System.out.println("ready");
        take(consumer, count);
    }

    private static void temporary(Connection connection) throws Exception {
        Session session = connection.createSession();
        TemporaryQueue queue = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(queue);
        System.out.println(queue.getQueueName());
        take(consumer, 1);
    }

    private static Message take(MessageConsumer consumer, int count) throws Exception {
        Message last = null;
        for (int n = 0; n < count; n++) {
            last = consumer.receive(PATIENCE_MS);
            if (last == null) {
                System.out.println("nothing came");
                return null;
            }
            System.out.println(((TextMessage) last).getText());
        }
        return last;
    }

    private static void tell(Message message) throws Exception {
        if (message == null) {
            System.out.println("nothing came");
            return;
        }
        String again = message.getJMSRedelivered() ? " again" : "";
        System.out.println(((TextMessage) message).getText() + " " + message.getIntProperty("JMSXDeliveryCount") + again);
    }
}
