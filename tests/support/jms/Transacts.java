import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Sends transactions of numbered messages until something ends it. Its arguments: URL, "send", address, how
 * many messages to a transaction, the number of the first one. Prints "begun", "committed" or "rolled-back"
 * with each number. Every fourth is rolled back; every eighth is too large for one batch of the journal.
 */
public final class Transacts {
    public static void main(String[] arguments) throws Exception {
        int size = Integer.parseInt(arguments[3]);
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            Session session = connection.createSession(Session.SESSION_TRANSACTED);
            MessageProducer producer = session.createProducer(session.createQueue(arguments[2]));
            String padding = "x".repeat((1 << 20) / size);
            for (int number = Integer.parseInt(arguments[4]); ; number++) {
                System.out.println("begun " + number);
                for (int place = 0; place < size; place++) {
                    producer.send(session.createTextMessage(
                            number + "/" + place + "/" + (number % 8 == 5 ? padding : "")));
                }
                if (number % 4 == 3) {
                    session.rollback();
                    System.out.println("rolled-back " + number);
                } else {
                    session.commit();
                    System.out.println("committed " + number);
                }
            }
        } catch (JMSException problem) {
            System.out.println("ended " + problem.getMessage());
        }
    }
}
