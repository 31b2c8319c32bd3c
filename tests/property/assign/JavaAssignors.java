// What Apache Kafka's own assignors make of the groups in java_results.tsv: reads its first three columns, writes
// the fourth. With the jars of a Kafka broker in lib:
//   cut -f1-3 java_results.tsv | java -cp 'lib/*' JavaAssignors.java answers.txt
import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

public class JavaAssignors {
    /** A node for each rack; "." is one that has none. */
    private static final Map<String, Node> NODES = Map.of(
        ".", new Node(0, "none", 1), "x", new Node(1, "x", 1, "x"),
        "y", new Node(2, "y", 1, "y"), "z", new Node(3, "z", 1, "z"));

    public static void main(String[] args) throws Exception {
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in));
        try (FileWriter answers = new FileWriter(args[0])) {
            for (String line; (line = groups.readLine()) != null; ) {
                String[] columns = line.split("\t", -1);
                var assigned = assignor(columns[0]).assign(cluster(columns[1]), members(columns[2]));
                answers.write(new TreeMap<>(assigned.groupAssignment()).entrySet().stream()
                    .map(e -> e.getKey() + "=" + e.getValue().partitions().stream()
                        .map(Object::toString).collect(Collectors.joining(",")))
                    .collect(Collectors.joining(" ")) + "\n");
            }
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    /** topic:racks of partition 0|racks of partition 1,... */
    private static Cluster cluster(String text) {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : text.split(",")) {
            String[] parts = topic.split(":");
            String[] racks = parts[1].split("\\|");
            for (int number = 0; number < racks.length; number++) {
                Node[] replicas = racks[number].chars().mapToObj(c -> NODES.get("" + (char) c)).toArray(Node[]::new);
                partitions.add(new PartitionInfo(parts[0], number, replicas[0], replicas, replicas));
            }
        }
        return new Cluster("cluster", NODES.values(), partitions, Set.of(), Set.of());
    }

    /** member;instance id, if any;subscription in hexadecimal, ... */
    private static GroupSubscription members(String text) {
        Map<String, Subscription> members = new TreeMap<>();
        for (String member : text.split(" ")) {
            String[] parts = member.split(";");
            ByteBuffer blob = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(blob);
            subscription.setGroupInstanceId(parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
            members.put(parts[0], subscription);
        }
        return new GroupSubscription(members);
    }
}
