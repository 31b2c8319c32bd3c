import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;

/** What an administrator does. */
final class AdminSteps implements AutoCloseable {
    private static final String RETENTION = "retention.ms";
    private final Options options;
    private final Admin admin;
    private final String topic;

    AdminSteps(Options options) {
        this.options = options;
        this.admin = Admin.create(options.properties());
        this.topic = options.topic();
    }

    @Override
    public void close() {
        admin.close();
    }

    /** Asks until the answer is yes, for ten seconds at most: a broker may act a moment after it said so. */
    private static void settled(String what, Callable<Boolean> check) throws Exception {
        long deadline = System.currentTimeMillis() + 10_000;
        while (!holds(check)) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException(what + " did not happen");
            }
            Thread.sleep(20);
        }
    }

    private static boolean holds(Callable<Boolean> check) throws Exception {
        try {
            return check.call();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof RetriableException) {
                return false;
            }
            throw error;
        }
    }

    private int partitions() throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    void connect() throws Exception {
        Collection<Integer> brokers =
                admin.describeCluster().nodes().get().stream().map(n -> n.id()).collect(Collectors.toList());
        Events.emit(
                "connected",
                "brokers", brokers,
                "controller", admin.describeCluster().controller().get().id(),
                "cluster", admin.describeCluster().clusterId().get());
    }

    void create() throws Exception {
        NewTopic fresh = new NewTopic(topic, options.number("partitions", 3), (short) 1);
        var result = admin.createTopics(List.of(fresh.configs(Map.of(RETENTION, "60000000"))));
        result.all().get();
        Events.emit(
                "created",
                "topic", topic,
                "partitions", result.numPartitions(topic).get(),
                "id", result.topicId(topic).get().toString());
        settled("creation", () -> partitions() == fresh.numPartitions());
        try {
            admin.createTopics(List.of(fresh)).all().get();
        } catch (ExecutionException error) {
            Events.emit("refused", "what", "create", "error", error.getCause().getClass().getSimpleName());
        }
    }

    void list() throws Exception {
        Events.emit("topics", "names", new TreeSet<>(admin.listTopics().names().get()));
    }

    void describe() throws Exception {
        var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        Events.emit(
                "described",
                "topic", topic,
                "partitions", description.partitions().size(),
                "id", description.topicId().toString());
    }

    private void showRetention(ConfigResource resource, String wanted) throws Exception {
        settled("a change of " + RETENTION, () -> {
            Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            return config.get(RETENTION).value().equals(wanted);
        });
        Events.emit("config", "name", RETENTION, "value", wanted);
    }

    void configs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        showRetention(resource, "60000000");
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(RETENTION, "70000000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        showRetention(resource, "70000000");
    }

    void grow() throws Exception {
        int total = options.number("partitions", 3) + 1;
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(total))).all().get();
        settled("growth", () -> partitions() == total);
        Events.emit("grown", "partitions", total);
    }

    private long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    void offsets() throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        Events.emit(
                "offsets",
                "earliest", offset(partition, OffsetSpec.earliest()),
                "latest", offset(partition, OffsetSpec.latest()),
                "largest", offset(partition, OffsetSpec.maxTimestamp()));
    }

    void truncate() throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        long low = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(1)))
                .lowWatermarks().get(partition).get().lowWatermark();
        Events.emit("truncated", "low", low);
    }

    @SuppressWarnings("deprecation")
    void groups() throws Exception {
        Set<String> ids = admin.listConsumerGroups().all().get().stream()
                .map(each -> each.groupId()).collect(Collectors.toCollection(TreeSet::new));
        Events.emit("groups", "ids", ids);
        ConsumerGroupDescription group =
                admin.describeConsumerGroups(List.of(options.group())).all().get().get(options.group());
        Events.emit(
                "group",
                "id", group.groupId(),
                "state", group.state().toString(),
                "members", group.members().size());
    }

    void committed() throws Exception {
        Map<String, Object> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(options.group()).partitionsToOffsetAndMetadata().get()
                .forEach((partition, found) -> offsets.put(partition.toString(), found.offset()));
        Events.emit("committed", "offsets", offsets);
    }

    void forget() throws Exception {
        admin.deleteConsumerGroups(List.of(options.group())).all().get();
        Events.emit("group-deleted", "id", options.group());
    }

    void delete() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        Events.emit("deleted", "topic", topic);
    }
}
