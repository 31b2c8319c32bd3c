// What Apache Kafka's server-side assignors make of the groups in java_results.tsv: reads its first four columns,
// writes the fifth. With the jars of a Kafka broker in lib:
//   cut -f1-4 java_results.tsv | java -cp 'lib/*' JavaServerAssignors.java answers.txt
// A topic is a number n, its id Uuid(0, n): so Java's hash order is the order of the numbers.
import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class JavaServerAssignors {
    public static void main(String[] args) throws Exception {
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in));
        try (FileWriter answers = new FileWriter(args[0])) {
            for (String line; (line = groups.readLine()) != null; ) {
                answers.write(answer(line.split("\t", -1)) + "\n");
            }
        }
    }

    /** name, "same" or "mixed", topic:partitions ..., member;instance;topic,topic;topic:partition|partition,... ... */
    private static String answer(String[] columns) throws Exception {
        ConsumerGroupPartitionAssignor assignor =
            columns[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type =
            columns[1].equals("same") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : columns[2].split(" ")) {
            counts.put(topic(topic.split(":")[0]), Integer.parseInt(topic.split(":")[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String member : columns[3].split(" ")) {
            String[] fields = member.split(";", -1);
            Set<Uuid> topics = new TreeSet<>();
            for (String topic : fields[2].split(",")) {
                if (!topic.isEmpty()) {
                    topics.add(topic(topic));
                }
            }
            Map<Uuid, Set<Integer>> target = new TreeMap<>();
            for (String share : fields[3].split(",")) {
                if (!share.isEmpty()) {
                    Set<Integer> numbers = new TreeSet<>();
                    for (String number : share.split(":")[1].split("\\|")) {
                        numbers.add(Integer.parseInt(number));
                        owners.computeIfAbsent(topic(share.split(":")[0]), t -> new HashMap<>())
                            .put(Integer.parseInt(number), fields[0]);
                    }
                    target.put(topic(share.split(":")[0]), numbers);
                }
            }
            members.put(fields[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.of(fields[1]).filter(i -> !i.isEmpty()), topics,
                new Assignment(Collections.unmodifiableMap(target))));
        }
        var result = assignor.assign(new GroupSpecImpl(members, type, owners), new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        });
        return new TreeMap<>(result.members()).entrySet().stream().map(member -> member.getKey() + "="
            + new TreeMap<>(member.getValue().partitions()).entrySet().stream()
                .filter(share -> !share.getValue().isEmpty())
                .map(share -> share.getKey().getLeastSignificantBits() + ":" + new TreeSet<>(share.getValue())
                    .stream().map(Object::toString).collect(Collectors.joining("|")))
                .collect(Collectors.joining(","))).collect(Collectors.joining(" "));
    }

    private static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }
}
