import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.ConsumerAwareRebalanceListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.listener.MessageListenerContainer;

/**
 * A story's consumer with a listener container of Spring Kafka in its default mode: the listener gets record by record,
 * and the container commits when all records of a poll are processed. Writes its events in the format of event_log.py.
 *
 * <p>java -cp JARS SpringClient.java NAME TOPIC program.key=value... key=value...; keys that begin with "program." are
 * for this program: record_ms (work on each record), quick_batches and quick_record_ms (number of quick batches at the
 * start, and work on each of their records). All other keys are settings of the client. SIGTERM stops the container.
 */
public class SpringClient {
    private static final Map<String, String> program = new HashMap<>();
    private static volatile boolean stopping;
    private static String name;
    private static long batches;
    private static int polled;
    private static int left;

    public static void main(String[] arguments) throws Exception {
        name = arguments[0];
        Map<String, Object> settings = new HashMap<>();
        for (String setting : List.of(arguments).subList(2, arguments.length)) {
            String[] pair = setting.split("=", 2);
            if (pair[0].startsWith("program.")) {
                program.put(pair[0].substring("program.".length()), pair[1]);
            } else {
                settings.put(pair[0], pair[1]);
            }
        }
        settings.put(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG, List.of(Polls.class));
        ContainerProperties properties = new ContainerProperties(arguments[1]);
        properties.setMessageListener((MessageListener<byte[], byte[]>) record -> process());
        properties.setConsumerRebalanceListener(new Rebalances());
        var factory = new DefaultKafkaConsumerFactory<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        var container = new KafkaMessageListenerContainer<>(factory, properties);
        container.setCommonErrorHandler(new Failures());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            container.stop();
            writeEvent("closed", "");
        }));
        writeEvent("started", "");
        container.start();
    }

    /** Works on a record, until the process must stop. */
    private static void process() {
        boolean quick = batches <= number("quick_batches", 0);
        long recordMs = quick ? number("quick_record_ms", 0) : number("record_ms", 0);
        try {
            for (long rest = recordMs; rest > 0 && !stopping; rest -= 50) {
                Thread.sleep(Math.min(50, rest));
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        left -= 1;
        if (left == 0) {
            writeEvent("processed", ",\"count\":" + polled);
        }
    }

    /** Sees what the container polls and commits. */
    public static class Polls implements ConsumerInterceptor<byte[], byte[]> {
        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            if (!records.isEmpty()) {
                writeEvent("records", ",\"count\":" + records.count() + ",\"ranges\":" + ranges(records));
                batches += 1;
                polled = records.count();
                left = polled;
            }
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            writeEvent("committed", "");
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> settings) {}
    }

    /** Spring's default error handler, which also writes an event when a commit is refused. */
    private static class Failures extends DefaultErrorHandler {
        @Override
        public void handleOtherException(
                Exception failure, Consumer<?, ?> consumer, MessageListenerContainer container, boolean isBatch) {
            if (failure instanceof CommitFailedException) {
                String text = failure.getMessage().replace("\"", "'").replace("\n", " ");
                writeEvent("commit_failed", ",\"error\":\"CommitFailedException\",\"text\":\"" + text + "\"");
            }
            super.handleOtherException(failure, consumer, container, isBatch);
        }
    }

    private static class Rebalances implements ConsumerAwareRebalanceListener {
        @Override
        public void onPartitionsAssigned(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
            writeEvent("assigned", places(partitions) + ",\"generation\":" + consumer.groupMetadata().generationId()
                    + ",\"member_id\":\"" + consumer.groupMetadata().memberId() + "\"");
        }

        @Override
        public void onPartitionsRevokedAfterCommit(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
            writeEvent("revoked", places(partitions));
        }

        @Override
        public void onPartitionsLost(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
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

    private static synchronized void writeEvent(String event, String more) {
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\",\"process\":\""
                + name + "/" + ProcessHandle.current().pid() + "\",\"event\":\"" + event + "\"" + more + "}");
        System.out.flush();
    }
}
