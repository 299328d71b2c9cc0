import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.Map;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Does with Qpid JMS what lines of standard input say, and answers each with one line: words with tabs in between, of
 * which the first is the command, and the second the name of what it makes or uses.
 */
public final class Shell {
    private static final Map<String, Integer> MODES = Map.of(
            "auto", Session.AUTO_ACKNOWLEDGE,
            "client", Session.CLIENT_ACKNOWLEDGE,
            "dups", Session.DUPS_OK_ACKNOWLEDGE,
            "transacted", Session.SESSION_TRANSACTED);

    private final String url;
    private final Map<String, Object> made = new HashMap<>();
    private final Map<String, Message> received = new HashMap<>();

    private Shell(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        Shell shell = new Shell(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = shell.run(line.split("\t", -1));
            } catch (JMSException | RuntimeException problem) {
                answer = "! " + problem.getClass().getSimpleName() + ": " + problem.getMessage();
            }
            System.out.println(answer.replace("\n", " "));
            System.out.flush();
        }
        System.exit(0);
    }

    private String run(String[] words) throws Exception {
        String name = words[1];
        switch (words[0]) {
            case "connect" -> made.put(name, connect(words));
            case "close" -> ((AutoCloseable) made.remove(name)).close();
            case "session" -> made.put(name, ((Connection) made.get(words[2])).createSession(MODES.get(words[3])));
            case "queue" -> made.put(name, session(words[2]).createQueue(words[3]));
            case "topic" -> made.put(name, session(words[2]).createTopic(words[3]));
            case "temporary-queue" -> made.put(name, session(words[2]).createTemporaryQueue());
            case "temporary-topic" -> made.put(name, session(words[2]).createTemporaryTopic());
            case "consumer" -> made.put(name, session(words[2]).createConsumer(
                    (Destination) made.get(words[3]), selector(words, 4), words.length > 5));
            case "durable" -> made.put(name, session(words[2]).createDurableConsumer(
                    (Topic) made.get(words[3]), words[4], selector(words, 5), words.length > 6));
            case "shared" -> made.put(name, session(words[2]).createSharedConsumer(
                    (Topic) made.get(words[3]), words[4], selector(words, 5)));
            case "shared-durable" -> made.put(name, session(words[2]).createSharedDurableConsumer(
                    (Topic) made.get(words[3]), words[4], selector(words, 5)));
            case "unsubscribe" -> session(name).unsubscribe(words[2]);
            case "send" -> send(words);
            case "receive" -> {
                MessageConsumer consumer = (MessageConsumer) made.get(name);
                long patience = Long.parseLong(words[2]);
                Message message = patience == 0 ? consumer.receiveNoWait() : consumer.receive(patience);
                received.put(name, message);
                return describe(message);
            }
            case "acknowledge" -> received.get(name).acknowledge();
            case "browse" -> {
                return browse(session(name), (Queue) made.get(words[2]), selector(words, 3));
            }
            case "commit" -> session(name).commit();
            case "rollback" -> session(name).rollback();
            case "recover" -> session(name).recover();
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "ok";
    }

    private Session session(String name) {
        return (Session) made.get(name);
    }

    private static String selector(String[] words, int index) {
        return words.length > index && !words[index].isEmpty() ? words[index] : null;
    }

    private Connection connect(String[] words) throws JMSException {
        JmsConnectionFactory factory = new JmsConnectionFactory(url);
        if (words.length > 2 && !words[2].isEmpty()) {
            factory.setClientID(words[2]);
        }
        if (words.length > 4) {
            factory.setUsername(words[3]);
            factory.setPassword(words[4]);
        }
        Connection connection = factory.createConnection();
        try {
            connection.start();
        } catch (JMSException problem) {
            connection.close();
            throw problem;
        }
        return connection;
    }

    /** send, session, destination, text, then any of priority=, delay=, live=, and properties as name=value. */
    private void send(String[] words) throws JMSException {
        Session session = session(words[1]);
        TextMessage message = session.createTextMessage(words[3]);
        try (MessageProducer producer = session.createProducer((Destination) made.get(words[2]))) {
            for (int n = 4; n < words.length; n++) {
                String[] pair = words[n].split("=", 2);
                switch (pair[0]) {
                    case "priority" -> producer.setPriority(Integer.parseInt(pair[1]));
                    case "delay" -> producer.setDeliveryDelay(Long.parseLong(pair[1]));
                    case "live" -> producer.setTimeToLive(Long.parseLong(pair[1]));
                    default -> {
                        if (pair[1].matches("-?[0-9]+")) {
                            message.setLongProperty(pair[0], Long.parseLong(pair[1]));
                        } else {
                            message.setStringProperty(pair[0], pair[1]);
                        }
                    }
                }
            }
            producer.send(message);
        }
    }

    private static String browse(Session session, Queue queue, String selector) throws JMSException {
        StringBuilder found = new StringBuilder();
        try (QueueBrowser browser = session.createBrowser(queue, selector)) {
            for (Enumeration<?> each = browser.getEnumeration(); each.hasMoreElements();) {
                found.append(found.isEmpty() ? "" : " ").append(text((Message) each.nextElement()));
            }
        }
        return found.toString();
    }

    private static String describe(Message message) throws JMSException {
        if (message == null) {
            return "nothing";
        }
        int count = message.getIntProperty("JMSXDeliveryCount");
        return text(message) + (message.getJMSRedelivered() ? " again " + count : "");
    }

    private static String text(Message message) throws JMSException {
        if (message instanceof TextMessage text) {
            return text.getText();
        }
        return message instanceof BytesMessage bytes
                ? new String(bytes.getBody(byte[].class), StandardCharsets.UTF_8)
                : message.getClass().getSimpleName();
    }
}
