import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A story's consumer with Kafka's own client; writes its events in the format of event_log.py.
 *
 * <p>java -cp JARS StoryClient.java NAME TOPIC program.key=value... key=value...; keys that begin with "program." are
 * for this program: poll_for_ms (how long it polls after the first assignment, then never again), record_ms (work on
 * each record), revoke_ms (work in the revocation callback), quick_batches and quick_record_ms (number of quick batches
 * at the start, and work on each of their records), commit (true: commitSync after each batch), stall_ms (work on the
 * next records, once for each file stall_file that it finds), stall_unsubscribes (true: it commits and unsubscribes
 * before a stall, and subscribes again after it), assign_ms (duration of SlowAssignor), fails_of (it seeks back to a
 * record with this value and retries after a second, forever), enforce_ms (interval of enforced rebalances). All other
 * keys are settings of the client. SIGTERM closes it in an orderly way.
 */
public class StoryClient {
    private static final Map<String, String> program = new HashMap<>();
    private static volatile boolean stopping;
    private static boolean failing;
    private static String name;
    private static String topic;
    private static long assignedAtMs;
    private static long enforcedAtMs;
    private static KafkaConsumer<byte[], byte[]> consumer;

    public static void main(String[] arguments) throws Exception {
        name = arguments[0];
        topic = arguments[1];
        // In source-file mode the default class loader cannot find the assignors of this file by name.
        Thread.currentThread().setContextClassLoader(StoryClient.class.getClassLoader());
        Properties properties = new Properties();
        for (String setting : List.of(arguments).subList(2, arguments.length)) {
            String[] pair = setting.split("=", 2);
            if (pair[0].startsWith("program.")) {
                program.put(pair[0].substring("program.".length()), pair[1]);
            } else {
                properties.put(pair[0], pair[1]);
            }
        }
        consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        closeOnSignal();
        consumer.subscribe(List.of(topic), new Listener());
        writeEvent("started", "");
        try {
            consume();
        } catch (WakeupException stop) {
            // SIGTERM.
        } finally {
            consumer.close();
        }
        writeEvent("closed", "");
    }

    private static void consume() throws Exception {
        long pollForMs = number("poll_for_ms", -1);
        long batch = 0;
        while (!stopping) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
            if (!records.isEmpty()) {
                writeEvent("records", ",\"count\":" + records.count() + ",\"ranges\":" + ranges(records));
                stall();
                retry(records);
                process(records.count(), batch++);
                if (program.containsKey("record_ms")) {
                    writeEvent("processed", ",\"count\":" + records.count());
                }
                if ("true".equals(program.get("commit"))) {
                    commit();
                }
            }
            enforce();
            if (pollForMs >= 0 && assignedAtMs > 0 && System.currentTimeMillis() >= assignedAtMs + pollForMs) {
                writeEvent("stops_polling", "");
                work(Long.MAX_VALUE);
            }
        }
    }

    /** Works for stall_ms if stall_file exists, and deletes the file. */
    private static void stall() throws Exception {
        if (program.containsKey("stall_file") && Files.deleteIfExists(Path.of(program.get("stall_file")))) {
            boolean unsubscribes = "true".equals(program.get("stall_unsubscribes"));
            writeEvent("stalls", ",\"milliseconds\":" + number("stall_ms", 0));
            if (unsubscribes) {
                commit();
                consumer.unsubscribe();
            }
            work(number("stall_ms", 0));
            if (unsubscribes) {
                consumer.subscribe(List.of(topic), new Listener());
            }
        }
    }

    /** Seeks back to a record on which it fails, as an error handler that retries forever. */
    private static void retry(ConsumerRecords<byte[], byte[]> records) throws Exception {
        byte[] failed = program.containsKey("fails_of") ? program.get("fails_of").getBytes() : null;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (failed != null && Arrays.equals(record.value(), failed)) {
                consumer.seek(new TopicPartition(record.topic(), record.partition()), record.offset());
                if (!failing) {
                    writeEvent("fails", ",\"partition\":" + record.partition() + ",\"offset\":" + record.offset());
                }
                failing = true;
                work(1_000);
            }
        }
    }

    private static void enforce() {
        long now = System.currentTimeMillis();
        if (assignedAtMs > 0 && now - Math.max(assignedAtMs, enforcedAtMs) >= number("enforce_ms", Long.MAX_VALUE)) {
            enforcedAtMs = now;
            writeEvent("enforces", "");
            consumer.enforceRebalance("the application wants it");
        }
    }

    private static void process(int count, long batch) throws Exception {
        boolean quick = batch < number("quick_batches", 0);
        long recordMs = quick ? number("quick_record_ms", 0) : number("record_ms", 0);
        work(count * recordMs);
    }

    /** Spends time without polling; returns early only when the process must stop. */
    private static void work(long milliseconds) throws Exception {
        long left = milliseconds;
        for (; left > 0 && !stopping; left -= 50) {
            Thread.sleep(Math.min(50, left));
        }
    }

    /** Calls work without throwing checked exceptions. */
    private static void spend(long milliseconds) {
        try {
            work(milliseconds);
        } catch (Exception interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void commit() {
        try {
            consumer.commitSync();
            writeEvent("committed", "");
        } catch (CommitFailedException failure) {
            String text = failure.getMessage().replace("\"", "'").replace("\n", " ");
            writeEvent("commit_failed", ",\"error\":\"CommitFailedException\",\"text\":\"" + text + "\"");
        }
    }

    /** A slow assignor, as with a busy leader or very many partitions. */
    public static class SlowAssignor extends RoundRobinAssignor {
        @Override
        public String name() {
            return "slow";
        }

        @Override
        public Map<String, List<TopicPartition>> assign(
                Map<String, Integer> partitions, Map<String, ConsumerPartitionAssignor.Subscription> subscriptions) {
            spend(number("assign_ms", 0));
            return super.assign(partitions, subscriptions);
        }
    }

    /** Leaves out the last partition of every topic. */
    public static class ForgetfulAssignor extends RoundRobinAssignor {
        @Override
        public String name() {
            return "forgetful";
        }

        @Override
        public Map<String, List<TopicPartition>> assign(
                Map<String, Integer> partitions, Map<String, ConsumerPartitionAssignor.Subscription> subscriptions) {
            Map<String, List<TopicPartition>> found = super.assign(partitions, subscriptions);
            found.values().forEach(each -> each.removeIf(one -> one.partition() == partitions.get(one.topic()) - 1));
            return found;
        }
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assignedAtMs = assignedAtMs == 0 ? System.currentTimeMillis() : assignedAtMs;
            writeEvent("assigned", places(partitions) + ",\"generation\":" + consumer.groupMetadata().generationId()
                    + ",\"member_id\":\"" + consumer.groupMetadata().memberId() + "\"");
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            long revokeMs = partitions.isEmpty() ? 0 : number("revoke_ms", 0);
            if (revokeMs > 0) {
                writeEvent("revoking", places(partitions));
                spend(revokeMs);
            }
            writeEvent("revoked", places(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            writeEvent("lost", places(partitions));
        }
    }

    private static String places(Collection<TopicPartition> partitions) {
        return partitions.stream()
                .map(each -> "[\"" + each.topic() + "\"," + each.partition() + "]")
                .sorted()
                .collect(Collectors.joining(",", ",\"partitions\":[", "]"));
    }

    private static String ranges(ConsumerRecords<byte[], byte[]> records) {
        return records.partitions().stream()
                .map(each -> {
                    List<ConsumerRecord<byte[], byte[]>> found = records.records(each);
                    return "[\"" + each.topic() + "\"," + each.partition() + "," + found.get(0).offset() + ","
                            + found.get(found.size() - 1).offset() + "]";
                })
                .collect(Collectors.joining(",", "[", "]"));
    }

    private static long number(String key, long otherwise) {
        return program.containsKey(key) ? Long.parseLong(program.get(key)) : otherwise;
    }

    private static void closeOnSignal() {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    private static synchronized void writeEvent(String event, String more) {
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\",\"process\":\""
                + name + "/" + ProcessHandle.current().pid() + "\",\"event\":\"" + event + "\"" + more + "}");
        System.out.flush();
    }
}
