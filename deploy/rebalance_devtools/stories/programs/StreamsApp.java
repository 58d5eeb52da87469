import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application; writes its events in the format of event_log.py.
 *
 * <p>java -cp JARS StreamsApp.java NAME TOPIC program.key=value... key=value...; keys that begin with "program." are for
 * this program: stall_ms (work on the next record, once for each file stall_file that it finds), stateful (true: it
 * stores the last record, which needs a changelog topic), dies_of (it throws at a record with this value, and the
 * process ends once Streams has given up). All other keys are settings of Streams and its consumers. SIGTERM closes it
 * as Streams' own shutdown does: in the classic protocol without leaving the group.
 */
public class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        Map<String, String> program = new HashMap<>();
        Properties properties = new Properties();
        properties.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        properties.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        for (String setting : List.of(arguments).subList(2, arguments.length)) {
            String[] pair = setting.split("=", 2);
            if (pair[0].startsWith("program.")) {
                program.put(pair[0].substring("program.".length()), pair[1]);
            } else {
                properties.put(pair[0], pair[1]);
            }
        }
        Path stallFile = program.containsKey("stall_file") ? Path.of(program.get("stall_file")) : null;
        long stallMs = Long.parseLong(program.getOrDefault("stall_ms", "0"));
        byte[] fatal = program.containsKey("dies_of") ? program.get("dies_of").getBytes() : null;
        StreamsBuilder builder = new StreamsBuilder();
        CountDownLatch first = new CountDownLatch(1);
        KStream<byte[], byte[]> records = builder.<byte[], byte[]>stream(arguments[1]).peek((key, value) -> {
            if (first.getCount() > 0) {
                writeEvent(name, "records");
                first.countDown();
            }
            if (stallFile != null && deleted(stallFile)) {
                writeEvent(name, "stalls");
                work(stallMs);
            }
            if (fatal != null && Arrays.equals(value, fatal)) {
                throw new IllegalStateException("cannot work on this record");
            }
        });
        if (program.containsKey("stateful")) {
            builder.addStateStore(Stores.keyValueStoreBuilder(
                    Stores.inMemoryKeyValueStore("last"), Serdes.ByteArray(), Serdes.ByteArray()));
            records.process(Keeper::new, "last");
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                writeEvent(name, "assigned");
            } else if (now == KafkaStreams.State.ERROR) {
                writeEvent(name, "dies");
                Runtime.getRuntime().halt(1);
            }
        });
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(10));
            writeEvent(name, "closed");
            closed.countDown();
        }));
        streams.start();
        writeEvent(name, "started");
        closed.await();
    }

    /** Stores the last record, so that its task has state that can move. */
    private static class Keeper implements Processor<byte[], byte[], Void, Void> {
        private KeyValueStore<byte[], byte[]> last;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            last = context.getStateStore("last");
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            last.put(record.value(), record.value());
        }
    }

    private static boolean deleted(Path file) {
        try {
            return Files.deleteIfExists(file);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** Spends time without polling. */
    private static void work(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static synchronized void writeEvent(String name, String event) {
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\",\"process\":\"" + name
                + "/" + ProcessHandle.current().pid() + "\",\"event\":\"" + event + "\"}");
        System.out.flush();
    }
}
