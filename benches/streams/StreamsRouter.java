import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * The router's job in Kafka Streams: journal records to the topic of the first route that takes their
 * address, keyed by a header, without the journal's own headers and with origin and id.
 *
 * <p>Arguments: servers, journal, how many records it has, threads, state folder, bridge id, key header.
 * Each line on stdin asks for one run over the whole journal: an application id, then the routes as
 * {@code address=topic}. Each run answers with one line: seconds from the first record to the last, and the
 * CPU seconds of this process meanwhile. One JVM for all runs, so that they are warm.
 */
public final class StreamsRouter {
    private record Route(byte[] address, String sink) {}

    public static void main(String[] args) throws Exception {
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            System.out.println(run(args, line.split(" ")));
        }
    }

    private static String run(String[] args, String[] request) throws InterruptedException {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, request[0]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

        var progress = new Progress(Long.parseLong(args[2]));
        var streams = new KafkaStreams(topology(args, request, progress), settings);
        streams.setUncaughtExceptionHandler(
                error -> {
                    error.printStackTrace();
                    System.exit(1);
                    return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
                });
        streams.start();
        progress.done.await();
        streams.close(Duration.ofMinutes(1)); // sends what is still under way
        streams.cleanUp();
        return progress.seconds() + " " + progress.cpuSeconds();
    }

    private static Topology topology(String[] args, String[] request, Progress progress) {
        var serde = Serdes.ByteArray();
        var topology = new Topology();
        topology.addSource("journal", serde.deserializer(), serde.deserializer(), args[1]);
        var routes = new ArrayList<Route>();
        for (int i = 1; i < request.length; i++) {
            String[] route = request[i].split("=");
            routes.add(new Route(bytes(route[0]), route[1]));
        }
        topology.addProcessor("router", () -> new Router(routes, args[5], args[6], progress), "journal");
        routes.stream().map(Route::sink).distinct().forEach(
                sink -> topology.addSink(sink, sink, serde.serializer(), serde.serializer(), "router"));
        return topology;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static final class Router implements Processor<byte[], byte[], byte[], byte[]> {
        private final List<Route> routes;
        private final byte[] origin;
        private final String keyHeader;
        private final Progress progress;
        private ProcessorContext<byte[], byte[]> context;

        Router(List<Route> routes, String bridgeId, String keyHeader, Progress progress) {
            this.routes = routes;
            this.origin = bytes(bridgeId);
            this.keyHeader = keyHeader;
            this.progress = progress;
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            this.context = context;
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            progress.begin();
            Headers headers = record.headers();
            byte[] address = headers.lastHeader("isthmus.address").value();
            for (Route route : routes) {
                if (java.util.Arrays.equals(route.address(), address)) {
                    byte[] key = headers.lastHeader(keyHeader).value();
                    context.forward(
                            new Record<>(key, record.value(), record.timestamp(), published(headers)),
                            route.sink());
                    break;
                }
            }
            progress.count();
        }

        private Headers published(Headers headers) {
            var published = new RecordHeaders();
            for (Header header : headers) {
                if (!header.key().startsWith("isthmus.")) {
                    published.add(header);
                }
            }
            RecordMetadata place = context.recordMetadata().orElseThrow();
            published.add("jmsbridge.origin", origin);
            published.add(
                    "isthmus.id", bytes(place.topic() + ":" + place.partition() + ":" + place.offset()));
            return published;
        }
    }

    /** Knows when the first record came and when the last one went. */
    private static final class Progress {
        final CountDownLatch done = new CountDownLatch(1);
        private final long total;
        private final AtomicLong counted = new AtomicLong();
        private final AtomicLong beganNs = new AtomicLong();
        private volatile long beganCpuNs;
        private volatile long endedNs;
        private volatile long endedCpuNs;

        Progress(long total) {
            this.total = total;
        }

        void begin() {
            if (beganNs.get() == 0 && beganNs.compareAndSet(0, System.nanoTime())) {
                beganCpuNs = cpuNs();
            }
        }

        void count() {
            if (counted.incrementAndGet() == total) {
                endedNs = System.nanoTime();
                endedCpuNs = cpuNs();
                done.countDown();
            }
        }

        double seconds() {
            return (endedNs - beganNs.get()) / 1e9;
        }

        double cpuSeconds() {
            return (endedCpuNs - beganCpuNs) / 1e9;
        }

        private static long cpuNs() {
            var system = ManagementFactory.getPlatformMXBean(com.sun.management.OperatingSystemMXBean.class);
            return system.getProcessCpuTime();
        }
    }
}
