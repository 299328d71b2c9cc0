import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Uses JMS queues as the lines of its stdin say, and tells what the application saw: an id, what to do, the URL, the
 * queue, and options as name=value. Requests run beside each other, each answered by a line of JSON with its id, what
 * went wrong, and what happened: [time, what, receiver, ...], in order, the time in ns of the system's monotonic clock:
 *
 * <pre>
 * seen     receive() has returned a message: its number, JMSXDeliveryCount and JMSRedelivered follow
 * took     the same with AUTO_ACKNOWLEDGE, so that it is acknowledged
 * tries    the receiver is about to acknowledge or commit all that it has seen
 * acked    that is done
 * back     the receiver is about to roll back or recover all that it has seen
 * died     the receiver has failed
 * joined   a queue's first message came so many ns after the receiver was asked for
 * browsed  a browser has shown all of a queue, so many ns after it was asked for
 * dead     a message of the dead-letter queue: its queue and number follow
 * </pre>
 *
 * With live=1 every event is a line of its own, at once: for a program that is to be killed.
 */
public final class JmsQueue {
    private static final String BODY = "x".repeat(256);
    private static final int PER_COMMIT = 500;
    private static final int POLL_MS = 500;
    private static final ExecutorService THREADS = Executors.newCachedThreadPool();
    private static final Map<String, Receiving> RECEIVING = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null;) {
            Request request = new Request(line);
            if (request.what.equals("expect")) {
                RECEIVING.computeIfPresent(request.id, (id, receiving) -> {
                    receiving.expected = request.number("count", 0);
                    return receiving;
                });
            } else {
                THREADS.submit(() -> answer(request));
            }
        }
        Runtime.getRuntime().halt(0); // a server that does not answer a close must not hold it up
    }

    private static void answer(Request request) {
        Trace trace = new Trace(request.number("live", 0) == 1);
        String problem = "";
        try {
            switch (request.what) {
                case "send" -> send(request);
                case "receive" -> receive(request, trace);
                case "cycle" -> cycle(request, trace);
                case "join" -> join(request, trace);
                case "browse" -> browse(request, trace);
                case "attach" -> attach(request);
                case "dead" -> dead(request, trace);
                default -> throw new IllegalStateException("no such request: " + request.what);
            }
        } catch (ExecutionException failure) {
            problem = String.valueOf(failure.getCause());
        } catch (Exception failure) {
            problem = String.valueOf(failure);
        }
        String escaped = problem.replace("\\", "/").replace("\"", "'").replaceAll("\\p{Cntrl}", " ");
        String head = "{\"id\":" + request.id + ",\"problem\":\"" + escaped + "\",\"events\":[";
        synchronized (System.out) {
            System.out.println(head + trace.events() + "]}");
        }
    }

    private static void send(Request request) throws Exception {
        try (Connection connection = connect(request)) {
            Session session = connection.createSession(Session.SESSION_TRANSACTED);
            for (String queue : request.queue.split(",")) {
                MessageProducer producer = session.createProducer(session.createQueue(queue));
                for (int number = 0; number < request.number("count", 1); number++) {
                    Message message = session.createTextMessage(BODY);
                    message.setIntProperty("number", number);
                    message.setStringProperty("queue", queue);
                    producer.send(message);
                    if (number % PER_COMMIT == 0) {
                        session.commit();
                    }
                }
                session.commit();
                producer.close();
            }
        }
    }

    /** Receivers of one queue, each on a connection of its own, until all that is expected is acknowledged. */
    private static void receive(Request request, Trace trace) throws Exception {
        Receiving receiving = new Receiving(request, trace);
        RECEIVING.put(request.id, receiving);
        List<Future<?>> receivers = new ArrayList<>();
        for (int receiver = 0; receiver < request.number("receivers", 1); receiver++) {
            int name = receiver;
            receivers.add(THREADS.submit(() -> {
                try (Connection connection = connect(request)) {
                    new Receiver(receiving, connection, name).run();
                }
                return null;
            }));
        }
        for (Future<?> receiver : receivers) {
            receiver.get();
        }
        RECEIVING.remove(request.id);
    }

    /** One receiver after another on one connection: each takes one message and closes. */
    private static void cycle(Request request, Trace trace) throws Exception {
        int count = request.number("count", 1);
        long end = System.nanoTime() + request.number("limit_s", 60) * 1_000_000_000L;
        try (Connection connection = connect(request)) {
            Session session = connection.createSession();
            for (int n = 0; n < count; n++) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("only " + n + " of " + count + " receivers in time");
                }
                MessageConsumer consumer = session.createConsumer(session.createQueue(request.queue));
                Message message = consumer.receive(request.quietMs());
                if (message == null) {
                    throw new IllegalStateException("receiver " + n + " of " + count + " got nothing");
                }
                trace.message("took", 0, message);
                consumer.close();
            }
        }
    }

    /** One receiver for each of the queues, one after another, on one connection. */
    private static void join(Request request, Trace trace) throws Exception {
        try (Connection connection = connect(request)) {
            Session session = connection.createSession();
            for (String queue : request.queue.split(",")) {
                long start = System.nanoTime();
                MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
                Message message = consumer.receive(request.quietMs());
                if (message == null) {
                    throw new IllegalStateException("nothing came of " + queue);
                }
                trace.add("joined", 0, "," + (System.nanoTime() - start));
                consumer.close();
            }
        }
    }

    /** One browser after another on one connection: each must show as many messages as there are, in order. */
    private static void browse(Request request, Trace trace) throws Exception {
        List<Integer> expected = new ArrayList<>();
        for (int number = 0; number < request.number("count", 1); number++) {
            expected.add(number);
        }
        try (Connection connection = connect(request)) {
            Session session = connection.createSession();
            for (int n = 0; n < request.number("browsers", 1); n++) {
                List<Integer> seen = new ArrayList<>();
                long start = System.nanoTime();
                try (QueueBrowser browser = session.createBrowser(session.createQueue(request.queue))) {
                    Enumeration<?> messages = browser.getEnumeration();
                    while (messages.hasMoreElements()) {
                        seen.add(number((Message) messages.nextElement()));
                    }
                    trace.add("browsed", 0, "," + (System.nanoTime() - start));
                }
                if (!seen.equals(expected)) {
                    throw new IllegalStateException("browser " + n + " has shown " + seen);
                }
            }
        }
    }

    /** Receivers that stay as long as the program, and wait for messages. */
    private static void attach(Request request) throws Exception {
        Connection connection = connect(request);
        for (int receiver = 0; receiver < request.number("receivers", 1); receiver++) {
            Session session = connection.createSession();
            session.createConsumer(session.createQueue(request.queue)).setMessageListener(message -> { });
        }
    }

    private static void dead(Request request, Trace trace) throws Exception {
        try (Connection connection = connect(request)) {
            Session session = connection.createSession();
            MessageConsumer consumer = session.createConsumer(session.createQueue(request.queue));
            for (Message message; (message = consumer.receive(POLL_MS)) != null;) {
                String queue = message.getStringProperty("queue");
                trace.add("dead", 0, ",\"" + queue + "\"," + number(message));
            }
        }
    }

    private static int number(Message message) throws JMSException {
        return (int) message.getLongProperty("number"); // an int or a long, by who has written it
    }

    private static Connection connect(Request request) throws JMSException {
        Connection connection = new JmsConnectionFactory(request.url).createConnection();
        connection.start();
        return connection;
    }

    /** What the receivers of one request have in common. */
    private static final class Receiving {
        private final Request request;
        private final Trace trace;
        private final boolean rollsFirstBack;
        private final Set<Integer> acknowledged = ConcurrentHashMap.newKeySet();
        private final AtomicInteger rollbacks = new AtomicInteger();
        private volatile int expected;

        Receiving(Request request, Trace trace) {
            this.request = request;
            this.trace = trace;
            rollsFirstBack = request.text("rollback", "never").equals("first");
            expected = request.number("count", 1);
        }

        /** Whether it is the first one, and was not rolled back as often as it may be. */
        boolean isToRollBack(Message message) throws JMSException {
            return rollsFirstBack && number(message) == 0 && rollbacks.get() < request.number("rollbacks", 10);
        }

        boolean isDone() {
            int dead = rollsFirstBack && rollbacks.get() >= request.number("rollbacks", 10) ? 1 : 0;
            return acknowledged.size() + dead >= expected;
        }
    }

    /** One receiver. */
    private static final class Receiver {
        private final Receiving common;
        private final Connection connection;
        private final Session session;
        private final MessageConsumer consumer;
        private final int name;
        private final String mode;
        private final String rollback;
        private final int batch;
        private final int delayMs;
        private final boolean live;
        private final List<Integer> open = new ArrayList<>();
        private Message last;
        private boolean commitsNext;

        Receiver(Receiving common, Connection connection, int name) throws JMSException {
            Request request = common.request;
            this.common = common;
            this.connection = connection;
            this.name = name;
            mode = request.text("mode", "auto");
            rollback = request.text("rollback", "never");
            batch = request.number("batch", 1);
            delayMs = request.number("delay_ms", 0);
            live = request.number("live", 0) == 1;
            session = connection.createSession(switch (mode) {
                case "transacted" -> Session.SESSION_TRANSACTED;
                case "client" -> Session.CLIENT_ACKNOWLEDGE;
                default -> Session.AUTO_ACKNOWLEDGE;
            });
            consumer = session.createConsumer(session.createQueue(request.queue));
        }

        void run() throws Exception {
            try {
                receive();
            } catch (Exception failure) {
                common.trace.add("died", name, "");
                throw failure;
            }
        }

        private void receive() throws Exception {
            long quietNanos = common.request.quietMs() * 1_000_000L;
            long heard = System.nanoTime();
            while (!common.isDone()) {
                Message message = consumer.receive(POLL_MS);
                if (message != null) {
                    take(message);
                    heard = System.nanoTime();
                } else if (!open.isEmpty()) {
                    acknowledge();
                } else if (System.nanoTime() - heard > quietNanos) {
                    break;
                }
            }
            acknowledge();
            // What comes now is a copy.
            int after = common.request.number("after_ms", 100);
            for (Message message; (message = consumer.receive(after)) != null;) {
                see(message);
                acknowledge();
            }
        }

        private void take(Message message) throws Exception {
            see(message);
            if (delayMs > 0) {
                Thread.sleep(delayMs);
            }
            if (common.isToRollBack(message)) {
                rollBack();
            } else if (open.size() >= batch) {
                if (rollback.equals("alternate") && !commitsNext) {
                    rollBack();
                } else {
                    acknowledge();
                }
                commitsNext = !commitsNext;
            }
        }

        private void see(Message message) throws JMSException {
            if (mode.equals("auto")) {
                common.trace.message("took", name, message);
                common.acknowledged.add(number(message));
            } else {
                common.trace.message("seen", name, message);
                open.add(number(message));
                last = message;
            }
        }

        private void acknowledge() throws JMSException {
            if (open.isEmpty()) {
                return;
            }
            common.trace.add("tries", name, "");
            if (mode.equals("transacted")) {
                session.commit();
            } else {
                last.acknowledge();
                if (live) {
                    connection.createSession().close(); // the server has answered this, so it has read that
                }
            }
            common.trace.add("acked", name, "");
            common.acknowledged.addAll(open);
            open.clear();
        }

        private void rollBack() throws JMSException {
            common.trace.add("back", name, "");
            open.clear();
            if (mode.equals("transacted")) {
                session.rollback();
            } else {
                session.recover();
            }
            common.rollbacks.incrementAndGet();
        }
    }

    /** What happened, in order. */
    private static final class Trace {
        private final boolean live;
        private final StringBuilder events = new StringBuilder();

        Trace(boolean live) {
            this.live = live;
        }

        void message(String what, int receiver, Message message) throws JMSException {
            int deliveries = message.getIntProperty("JMSXDeliveryCount");
            add(what, receiver, "," + number(message) + "," + deliveries + "," + message.getJMSRedelivered());
        }

        synchronized void add(String what, int receiver, String more) {
            if (live) {
                System.out.println("[" + System.nanoTime() + ",\"" + what + "\"," + receiver + more + "]");
            } else {
                events.append(events.isEmpty() ? "[" : ",[").append(System.nanoTime()).append(",\"").append(what);
                events.append("\",").append(receiver).append(more).append("]");
            }
        }

        synchronized String events() {
            return events.toString();
        }
    }

    private static final class Request {
        private final String id;
        private final String what;
        private final String url;
        private final String queue;
        private final Map<String, String> options = new HashMap<>();

        Request(String line) {
            String[] words = line.split(" ");
            id = words[0];
            what = words[1];
            url = words[2];
            queue = words[3];
            for (int n = 4; n < words.length; n++) {
                String[] option = words[n].split("=", 2);
                options.put(option[0], option[1]);
            }
        }

        /** How long a receiver waits for a message. */
        int quietMs() {
            return number("quiet_ms", 15_000);
        }

        String text(String name, String otherwise) {
            return options.getOrDefault(name, otherwise);
        }

        int number(String name, int otherwise) {
            return Integer.parseInt(text(name, String.valueOf(otherwise)));
        }
    }
}
