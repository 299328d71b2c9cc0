import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Sends and receives with Qpid JMS, as the lines of its stdin say: what, URL, queue, how many, over how many
 * connections at a time. Answers each with the seconds that it took, or with what went wrong. One warm JVM serves
 * all rounds, whoever the broker is.
 */
public final class JmsLoad {
    private static final String BODY = "x".repeat(256);
    private static final int PER_COMMIT = 100;
    private static final int PATIENCE_S = 60;

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null;) {
            String[] request = line.split(" ");
            int connections = Integer.parseInt(request[4]);
            int count = Integer.parseInt(request[3]) / connections;
            ExecutorService threads = Executors.newFixedThreadPool(connections);
            List<Future<Long>> runs = new ArrayList<>();
            for (int n = 0; n < connections; n++) {
                runs.add(threads.submit(() -> run(request[0], request[1], request[2], count)));
            }
            try {
                long slowest = 0;
                for (Future<Long> run : runs) {
                    slowest = Math.max(slowest, run.get());
                }
                System.out.println(slowest / 1e9);
            } catch (ExecutionException problem) {
                System.out.println("failed: " + problem.getCause());
            }
            threads.shutdown();
        }
    }

    private static long run(String what, String url, String queue, int count) throws Exception {
        try (Connection connection = new JmsConnectionFactory(url).createConnection()) {
            connection.start();
            return switch (what) {
                case "async" -> async(connection, queue, count);
                case "sync" -> sync(connection, queue, count);
                case "transacted" -> transacted(connection, queue, count);
                case "receive" -> receive(connection, queue, count);
                default -> throw new IllegalStateException("no such load: " + what);
            };
        }
    }

    /** From the first send to the last completion. */
    private static long async(Connection connection, String queue, int count) throws Exception {
        Session session = connection.createSession();
        MessageProducer producer = producer(session, queue);
        CountDownLatch pending = new CountDownLatch(count);
        AtomicReference<Exception> failure = new AtomicReference<>();
        CompletionListener listener = new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                pending.countDown();
            }

            @Override
            public void onException(Message message, Exception problem) {
                failure.set(problem);
                pending.countDown();
            }
        };
        long start = System.nanoTime();
        for (int n = 0; n < count; n++) {
            producer.send(message(session, n), listener);
        }
        if (!pending.await(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(pending.getCount() + " sends are not completed");
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return System.nanoTime() - start;
    }

    /** Every send waits for its own acknowledgement, as a persistent send of JMS does. */
    private static long sync(Connection connection, String queue, int count) throws Exception {
        Session session = connection.createSession();
        MessageProducer producer = producer(session, queue);
        long start = System.nanoTime();
        for (int n = 0; n < count; n++) {
            producer.send(message(session, n));
        }
        return System.nanoTime() - start;
    }

    private static long transacted(Connection connection, String queue, int count) throws Exception {
        Session session = connection.createSession(Session.SESSION_TRANSACTED);
        MessageProducer producer = producer(session, queue);
        long start = System.nanoTime();
        for (int n = 1; n <= count; n++) {
            producer.send(message(session, n));
            if (n % PER_COMMIT == 0) {
                session.commit();
            }
        }
        return System.nanoTime() - start;
    }

    /** From the first message to the last: it takes Kafka seconds to let a consumer in. */
    private static long receive(Connection connection, String queue, int count) throws Exception {
        Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        next(consumer, 0);
        long start = System.nanoTime();
        for (int n = 1; n < count; n++) {
            next(consumer, n);
        }
        return System.nanoTime() - start;
    }

    private static void next(MessageConsumer consumer, int number) throws Exception {
        if (!(consumer.receive(PATIENCE_S * 1000) instanceof TextMessage text)) {
            throw new IllegalStateException("no text message came after " + number);
        }
        if (text.getText().length() != BODY.length()) {
            throw new IllegalStateException("a body of " + text.getText().length() + " characters came");
        }
    }

    private static MessageProducer producer(Session session, String queue) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        return producer;
    }

    private static TextMessage message(Session session, int number) throws Exception {
        TextMessage message = session.createTextMessage(BODY);
        message.setStringProperty("Region", "EU");
        message.setIntProperty("Amount", 42);
        message.setJMSCorrelationID("c-" + number);
        return message;
    }
}
