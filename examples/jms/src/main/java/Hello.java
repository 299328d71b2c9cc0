import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Sends a message to a queue of the bridge, and receives one from there: {@code Hello [URL [QUEUE]]}. */
public final class Hello {
    public static void main(String[] arguments) throws Exception {
        String url = arguments.length > 0 ? arguments[0] : "amqp://127.0.0.1:5672";
        String name = arguments.length > 1 ? arguments[1] : "orders/java";

        try (JMSContext context = new JmsConnectionFactory(url).createContext()) {
            Queue queue = context.createQueue(name);
            JMSProducer producer = context.createProducer();
            producer.setJMSCorrelationID("customer-7").setProperty("amount", 42);
            producer.send(queue, "hello from JMS"); // returns when Kafka has it
            System.out.println("sent to " + name);

            Message message = context.createConsumer(queue).receive(30_000);
            if (message == null) {
                throw new IllegalStateException("nothing came from " + name);
            }
            System.out.println("received " + message.getBody(String.class)
                    + ", amount " + message.getIntProperty("amount")
                    + ", from Kafka topic " + message.getStringProperty("JMS_kafka_topic"));
        }
    }
}
