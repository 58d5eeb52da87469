import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * A Kafka Streams application without state, telling its events in the lines of telling.py.
 *
 * <p>java -cp JARS StreamsApp.java NAME TOPIC key=value...; keys are those of Streams and its consumers. SIGTERM closes
 * it as its own shutdown does: without leaving the group.
 */
public class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        Properties properties = new Properties();
        properties.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        properties.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        for (String setting : List.of(arguments).subList(2, arguments.length)) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        CountDownLatch first = new CountDownLatch(1);
        builder.<byte[], byte[]>stream(arguments[1]).foreach((key, value) -> {
            if (first.getCount() > 0) {
                tell(name, "records");
                first.countDown();
            }
        });
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                tell(name, "assigned");
            }
        });
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(10));
            tell(name, "closed");
            closed.countDown();
        }));
        streams.start();
        tell(name, "started");
        closed.await();
    }

    private static synchronized void tell(String name, String event) {
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\",\"process\":\"" + name
                + "/" + ProcessHandle.current().pid() + "\",\"event\":\"" + event + "\"}");
        System.out.flush();
    }
}
