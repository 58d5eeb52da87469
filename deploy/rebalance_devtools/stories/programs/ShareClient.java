import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of a share group (KIP-932); writes its events in the format of event_log.py.
 *
 * <p>java -cp JARS ShareClient.java NAME TOPIC key=value...; keys are settings of the client. It has no callbacks and
 * no assignment, so "assigned" is written with the first records. SIGTERM closes it in an orderly way.
 */
public class ShareClient {
    private static String name;

    public static void main(String[] arguments) {
        name = arguments[0];
        Properties properties = new Properties();
        for (String setting : List.of(arguments).subList(2, arguments.length)) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                closed.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[1]));
        writeEvent("started", "");
        boolean first = true;
        try (consumer) {
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (first && !records.isEmpty()) {
                    writeEvent("assigned", "");
                    first = false;
                }
                if (!records.isEmpty()) {
                    writeEvent("records", ",\"count\":" + records.count());
                }
            }
        } catch (WakeupException stop) {
            // SIGTERM.
        }
        writeEvent("closed", "");
        closed.countDown();
    }

    private static synchronized void writeEvent(String event, String more) {
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\",\"process\":\"" + name
                + "/" + ProcessHandle.current().pid() + "\",\"event\":\"" + event + "\"" + more + "}");
        System.out.flush();
    }
}
