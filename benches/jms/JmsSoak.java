import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Keeps many connections open, each with one session and two links, and sends over them at a rate. Arguments: URL,
 * connections, how many of them have a subscriber in place of their second producer, its topic. Lines of stdin:
 * seconds, messages a second (0: as many as go). Answers each with what was sent, completed, failed, received, and
 * received out of order, since the start.
 */
public final class JmsSoak {
    private static final String BODY = "x".repeat(256);
    private static final int WORKERS = 20;
    private static final int PER_COMMIT = 10;
    private static final long TICK_NANOS = 20_000_000;
    private static final AtomicLong SENT = new AtomicLong();
    private static final AtomicLong COMPLETED = new AtomicLong();
    private static final AtomicLong FAILED = new AtomicLong();
    private static final AtomicLong RECEIVED = new AtomicLong();
    private static final AtomicLong DISORDER = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        int connections = Integer.parseInt(arguments[1]);
        int subscribers = Integer.parseInt(arguments[2]);
        List<List<Peer>> shares = new ArrayList<>();
        for (int worker = 0; worker < WORKERS; worker++) {
            shares.add(new ArrayList<>());
        }
        ExecutorService threads = Executors.newFixedThreadPool(WORKERS);
        List<Future<Peer>> peers = new ArrayList<>();
        for (int n = 0; n < connections; n++) {
            int number = n;
            String topic = number < subscribers ? arguments[3] : null;
            peers.add(threads.submit(() -> new Peer(arguments[0], number, topic)));
        }
        try {
            for (int number = 0; number < connections; number++) {
                shares.get(number % WORKERS).add(peers.get(number).get());
            }
        } catch (ExecutionException problem) {
            System.err.println(problem);
            System.exit(1);
        }
        threads.shutdown();
        System.out.println("ready");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null;) {
            String[] request = line.split(" ");
            run(shares, Double.parseDouble(request[0]), Double.parseDouble(request[1]));
            System.out.println(SENT + " " + COMPLETED + " " + FAILED + " " + RECEIVED + " " + DISORDER);
        }
        System.exit(0);
    }

    private static void run(List<List<Peer>> shares, double seconds, double rate) throws Exception {
        List<Thread> workers = new ArrayList<>();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (List<Peer> share : shares) {
            Thread worker = new Thread(() -> send(share, end, rate / shares.size()));
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        long patience = System.nanoTime() + 60_000_000_000L;
        while (COMPLETED.get() + FAILED.get() < SENT.get() && System.nanoTime() < patience) {
            Thread.sleep(10);
        }
    }

    private static void send(List<Peer> peers, long end, double rate) {
        int turn = 0;
        double due = 0;
        for (long tick = System.nanoTime(); System.nanoTime() < end; tick += TICK_NANOS) {
            due = rate == 0 ? peers.size() : Math.min(due + rate * TICK_NANOS / 1e9, rate);
            for (; due >= 1 && System.nanoTime() < end; due--) {
                Peer peer = peers.get(turn++ % peers.size());
                try {
                    peer.send();
                } catch (Exception problem) {
                    FAILED.incrementAndGet();
                    System.err.println(problem);
                }
            }
            long rest = tick + TICK_NANOS - System.nanoTime();
            if (rest > 0 && rate > 0) {
                java.util.concurrent.locks.LockSupport.parkNanos(rest);
            }
        }
        for (Peer peer : peers) {
            peer.commit();
        }
    }

    /** One connection. Of ten, one sends in transactions, one waits for every message, and eight do not. */
    private static final class Peer implements CompletionListener {
        private final int number;
        private final Session session;
        private final MessageProducer[] producers;
        private final boolean transacted;
        private final boolean sync;
        private long next;
        private int open;
        private long last = -1;

        Peer(String url, int number, String topic) throws Exception {
            this.number = number;
            transacted = number % 10 == 0;
            sync = number % 10 == 1;
            Connection connection = new JmsConnectionFactory(url).createConnection();
            session = connection.createSession(transacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
            producers = new MessageProducer[topic == null ? 2 : 1];
            for (int link = 0; link < producers.length; link++) {
                producers[link] = session.createProducer(session.createQueue("soak." + (number + link) % 20));
            }
            if (topic != null) {
                Session receiving = connection.createSession();
                MessageConsumer consumer = receiving.createConsumer(receiving.createTopic(topic));
                consumer.setMessageListener(this::received);
            }
            connection.start();
        }

        void send() throws Exception {
            TextMessage message = session.createTextMessage(BODY);
            message.setIntProperty("peer", number);
            message.setLongProperty("number", next);
            MessageProducer producer = producers[(int) (next++ % producers.length)];
            SENT.incrementAndGet();
            if (transacted) {
                producer.send(message);
                if (++open == PER_COMMIT) {
                    commit();
                }
            } else if (sync) {
                producer.send(message);
                COMPLETED.incrementAndGet();
            } else {
                producer.send(message, this);
            }
        }

        void commit() {
            if (open > 0) {
                try {
                    session.commit();
                    COMPLETED.addAndGet(open);
                } catch (Exception problem) {
                    FAILED.addAndGet(open);
                    System.err.println(problem);
                }
                open = 0;
            }
        }

        private void received(Message message) {
            try {
                long found = Long.parseLong(message.getStringProperty("number"));
                if (last >= 0 && found != last + 1) {
                    DISORDER.incrementAndGet();
                }
                last = found;
                RECEIVED.incrementAndGet();
            } catch (Exception problem) {
                FAILED.incrementAndGet();
                System.err.println(problem);
            }
        }

        @Override
        public void onCompletion(Message message) {
            COMPLETED.incrementAndGet();
        }

        @Override
        public void onException(Message message, Exception problem) {
            FAILED.incrementAndGet();
            System.err.println(problem);
        }
    }
}
