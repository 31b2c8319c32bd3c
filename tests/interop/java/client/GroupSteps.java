import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a group, until it has seen enough or is told "stop" (leave) or "die" (vanish) on standard input. */
final class GroupSteps {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private GroupSteps() {}

    private static Collection<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).collect(Collectors.toCollection(TreeSet::new));
    }

    private static final ConsumerRebalanceListener LISTENER = new ConsumerRebalanceListener() {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            Events.emit("assigned", "partitions", names(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            Events.emit("revoked", "partitions", names(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            Events.emit("lost", "partitions", names(partitions));
        }
    };

    private static Properties properties(Options options) {
        Properties properties = DataSteps.consumerProperties(options);
        properties.put("group.id", options.group());
        if (options.has("protocol")) {
            properties.put("group.protocol", options.text("protocol", ""));
        } else {
            properties.put("session.timeout.ms", options.text("session", "6000"));
            properties.put("heartbeat.interval.ms", "250");
        }
        properties.put("max.poll.records", options.text("batch", "500"));
        properties.put("metadata.max.age.ms", "1000");
        if (options.has("assignor")) {
            List<String> classes = List.of(options.text("assignor", "").split("\\+"));
            properties.put(
                    "partition.assignment.strategy",
                    classes.stream().map(ASSIGNORS::get).collect(Collectors.joining(",")));
        }
        if (options.has("instance")) {
            properties.put("group.instance.id", options.text("instance", ""));
        }
        return properties;
    }

    private static void commit(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
        try {
            consumer.commitSync();
        } catch (RebalanceInProgressException error) {
            Events.emit("commit-refused", "error", error.getClass().getSimpleName());
            return;
        }
        Map<String, Object> offsets = new TreeMap<>();
        records.partitions().forEach(each -> offsets.put(each.toString(), consumer.position(each)));
        Events.emit("committed", "offsets", offsets);
    }

    static void group(Options options) {
        int wanted = options.number("records", Integer.MAX_VALUE);
        int seen = 0;
        try (var consumer =
                new KafkaConsumer<>(properties(options), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(options.topic().split("\\+")), LISTENER);
            while (!options.stopped && seen < wanted) {
                var records = consumer.poll(Duration.ofMillis(100));
                records.forEach(DataSteps::show);
                seen += records.count();
                if (!records.isEmpty()) {
                    commit(consumer, records);
                }
            }
            Events.emit("leaving", "member", consumer.groupMetadata().memberId(), "count", seen);
        }
        Events.emit("closed", "count", seen);
    }
}
