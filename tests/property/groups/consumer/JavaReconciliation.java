// What Apache Kafka's CurrentAssignmentBuilder makes of the members in java_results.tsv: reads its first nine columns,
// writes the tenth. With the jars of a Kafka broker in lib:
//   cut -f1-9 java_results.tsv | java -cp 'lib/*' JavaReconciliation.java answers.txt
// A topic is a number n, its id Uuid(0, n) and its name "n".
import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData.TopicPartitions;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;

public class JavaReconciliation {
    public static void main(String[] args) throws Exception {
        BufferedReader members = new BufferedReader(new InputStreamReader(System.in));
        try (FileWriter answers = new FileWriter(args[0])) {
            for (String line; (line = members.readLine()) != null; ) {
                answers.write(answer(line.split("\t", -1)) + "\n");
            }
        }
    }

    /** epoch/previous/state, assigned, pending, target epoch, target, subscribed, "changed" or "", owned or "-", others */
    private static String answer(String[] columns) {
        String[] numbers = columns[0].split("/");
        Map<Uuid, Set<Integer>> assigned = shares(columns[1]);
        Map<Uuid, Set<Integer>> pending = shares(columns[2]);
        Map<Uuid, Set<Integer>> others = shares(columns[8]);
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("m")
            .setMemberEpoch(Integer.parseInt(numbers[0]))
            .setPreviousMemberEpoch(Integer.parseInt(numbers[1]))
            .setState(MemberState.fromValue(Byte.parseByte(numbers[2])))
            .setSubscribedTopicNames(columns[5].isEmpty() ? List.of() : List.of(columns[5].split(",")))
            .setSubscribedTopicRegex("")
            .setAssignedPartitions(assigned)
            .setPartitionsPendingRevocation(pending)
            .build();
        List<TopicPartitions> owned = columns[7].equals("-") ? null : shares(columns[7]).entrySet().stream()
            .map(share -> new TopicPartitions().setTopicId(share.getKey())
                .setPartitions(new ArrayList<>(share.getValue())))
            .collect(Collectors.toList());
        try {
            ConsumerGroupMember after = new CurrentAssignmentBuilder(member)
                .withMetadataImage(new Topics())
                .withTargetAssignment(Integer.parseInt(columns[3]), new Assignment(shares(columns[4])))
                .withHasSubscriptionChanged(!columns[6].isEmpty())
                .withResolvedRegularExpressions(Map.of())
                .withCurrentPartitionEpoch((topic, number) ->
                    has(assigned, topic, number) || has(pending, topic, number) || has(others, topic, number) ? 1 : -1)
                .withOwnedTopicPartitions(owned)
                .build();
            return after.memberEpoch() + "/" + after.previousMemberEpoch() + "/" + after.state().value() + " "
                + shown(after.assignedPartitions()) + " " + shown(after.partitionsPendingRevocation());
        } catch (ApiException error) {
            return Errors.forException(error).name();
        }
    }

    private static boolean has(Map<Uuid, Set<Integer>> partitions, Uuid topic, int number) {
        return partitions.getOrDefault(topic, Set.of()).contains(number);
    }

    private static Map<Uuid, Set<Integer>> shares(String text) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (String share : text.split(",")) {
            if (!share.isEmpty()) {
                Set<Integer> numbers = new TreeSet<>();
                for (String number : share.split(":")[1].split("\\|")) {
                    numbers.add(Integer.parseInt(number));
                }
                found.put(new Uuid(0, Long.parseLong(share.split(":")[0])), numbers);
            }
        }
        return found;
    }

    private static String shown(Map<Uuid, Set<Integer>> partitions) {
        return new TreeMap<>(partitions).entrySet().stream().filter(share -> !share.getValue().isEmpty())
            .map(share -> share.getKey().getLeastSignificantBits() + ":" + new TreeSet<>(share.getValue()).stream()
                .map(Object::toString).collect(Collectors.joining("|"))).collect(Collectors.joining(","));
    }

    /** Every topic exists. */
    private static class Topics implements CoordinatorMetadataImage {
        public Set<Uuid> topicIds() {
            return Set.of();
        }

        public Set<String> topicNames() {
            return Set.of();
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return topicMetadata(new Uuid(0, Long.parseLong(name)));
        }

        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(new TopicMetadata() {
                public String name() {
                    return Long.toString(id.getLeastSignificantBits());
                }

                public Uuid id() {
                    return id;
                }

                public int partitionCount() {
                    return 100;
                }

                public List<String> partitionRacks(int partition) {
                    return List.of();
                }
            });
        }

        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        public long version() {
            return 1;
        }

        public boolean isEmpty() {
            return false;
        }
    }
}
