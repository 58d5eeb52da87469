import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of Kafka's own client that reports what it owns, in the lines of client.py.
 *
 * <p>java -cp JARS JavaClient.java consumer|share TOPIC NAME key=value...; SIGTERM closes it in order.
 */
public class JavaClient {
    private static final TreeSet<String> owned = new TreeSet<>();
    private static String name;

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[0];
        String topic = arguments[1];
        name = arguments[2];
        Properties properties = new Properties();
        properties.put("client.id", name);
        for (String setting : List.of(arguments).subList(3, arguments.length)) {
            properties.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        writeEvent("started");
        if (kind.equals("share")) {
            share(topic, properties);
        } else {
            consume(topic, properties);
        }
    }

    private static void consume(String topic, Properties properties) throws Exception {
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch closed = closeOnSignal(consumer::wakeup);
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                partitions.forEach(each -> owned.add(place(each)));
                writeEvent("assigned");
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                partitions.forEach(each -> owned.remove(place(each)));
                writeEvent("revoked");
            }
        });
        try (consumer) {
            while (true) {
                consumer.poll(Duration.ofMillis(200));
            }
        } catch (WakeupException stop) {
            writeEvent("closed");
        }
        closed.countDown();
    }

    private static void share(String topic, Properties properties) throws Exception {
        KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch closed = closeOnSignal(consumer::wakeup);
        consumer.subscribe(List.of(topic));
        // A share consumer has no callbacks: the broker's log shows which group it is in.
        writeEvent("assigned");
        try (consumer) {
            while (true) {
                consumer.poll(Duration.ofMillis(200));
            }
        } catch (WakeupException stop) {
            writeEvent("closed");
        }
        closed.countDown();
    }

    private static CountDownLatch closeOnSignal(Runnable wakeup) {
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            wakeup.run();
            try {
                closed.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        return closed;
    }

    private static String place(TopicPartition partition) {
        return "[\"" + partition.topic() + "\"," + partition.partition() + "]";
    }

    private static synchronized void writeEvent(String event) {
        String places = owned.stream().collect(Collectors.joining(","));
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\",\"event\":\""
                + event + "\",\"owned\":[" + places + "]}");
        System.out.flush();
    }
}
