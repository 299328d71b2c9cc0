import jakarta.jms.Connection;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Requests or answers with Qpid JMS, as its arguments say: URL, what, address, how many. Prints what it got. */
public final class Requests {
    private static final int PATIENCE_MS = 240_000;

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
            Session session = connection.createSession();
            switch (arguments[1]) {
                case "request" -> request(session, address, count);
                case "answer" -> answer(session, address, count);
                default -> throw new IllegalArgumentException(arguments[1]);
            }
            System.out.println("done");
        } catch (jakarta.jms.JMSException problem) {
            System.out.println(problem.getClass().getSimpleName() + ": " + problem.getMessage());
        }
    }

    private static void request(Session session, String address, int count) throws Exception {
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(session.createQueue(address));
        for (int n = 0; n < count; n++) {
            TextMessage request = session.createTextMessage("request " + n);
            request.setJMSReplyTo(replies);
            request.setJMSCorrelationID("c-" + n);
            producer.send(request);
            Message answer = consumer.receive(PATIENCE_MS);
            if (answer == null) {
                System.out.println("no answer");
                return;
            }
            System.out.println(answer.getJMSCorrelationID() + " " + content(answer));
        }
    }

    private static void answer(Session session, String address, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(address));
        MessageProducer producer = session.createProducer(null);
        System.out.println("ready");
        for (int n = 0; n < count; n++) {
            Message request = consumer.receive(PATIENCE_MS);
            if (request == null) {
                System.out.println("no request");
                return;
            }
            MapMessage answer = session.createMapMessage();
            answer.setString("to", content(request));
            Message sent = request.propertyExists("plain") ? session.createTextMessage("to " + content(request)) : answer;
            sent.setJMSCorrelationID(request.getJMSCorrelationID());
            producer.send(request.getJMSReplyTo(), sent);
        }
    }

    private static String content(Message message) throws Exception {
        return message instanceof MapMessage map ? "map " + map.getString("to") : ((TextMessage) message).getText();
    }
}
