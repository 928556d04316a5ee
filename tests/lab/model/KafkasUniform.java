import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Kafka's own uniform assignor, for a test of the same rule in Python.
 *
 * <p>Each line that it reads is a number of partitions and the members in the order in which the
 * assignor is to take them; they have what the line before gave them. "new" begins another group.
 * Each line that it prints has the partitions of each member, in that order.
 */
public final class KafkasUniform implements GroupSpec, SubscribedTopicDescriber {
    private static final Uuid TOPIC = new Uuid(5, 1);

    private int partitions;
    private List<String> order = List.of();
    private Map<String, Set<Integer>> held = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        KafkasUniform group = new KafkasUniform();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("new")) {
                group = new KafkasUniform();
            } else {
                System.out.println(group.next(Arrays.asList(line.split(" "))));
            }
        }
    }

    private String next(List<String> words) {
        partitions = Integer.parseInt(words.get(0));
        order = words.subList(1, words.size());
        Map<String, MemberAssignment> assigned = new UniformAssignor().assign(this, this).members();
        held = new LinkedHashMap<>();
        List<String> shown = new ArrayList<>();
        for (String name : order) {
            Set<Integer> given = assigned.get(name).partitions().getOrDefault(TOPIC, Set.of());
            // The coordinator writes them to a record and reads them from there.
            held.put(name, Collections.unmodifiableSet(new HashSet<>(new ArrayList<>(given))));
            shown.add(String.join(",", given.stream().sorted().map(String::valueOf).toList()));
        }
        return String.join(" ", shown);
    }

    @Override
    public Collection<String> memberIds() {
        return order;
    }

    @Override
    public SubscriptionType subscriptionType() {
        return SubscriptionType.HOMOGENEOUS;
    }

    @Override
    public boolean isPartitionAssigned(Uuid topic, int partition) {
        return order.stream().anyMatch(it -> held.getOrDefault(it, Set.of()).contains(partition));
    }

    @Override
    public boolean isPartitionAssignable(Uuid topic, int partition) {
        return true;
    }

    @Override
    public MemberSubscription memberSubscription(String member) {
        return new MemberSubscription() {
            @Override
            public Optional<String> rackId() {
                return Optional.empty();
            }

            @Override
            public Optional<String> instanceId() {
                return Optional.empty();
            }

            @Override
            public Set<Uuid> subscribedTopicIds() {
                return Set.of(TOPIC);
            }
        };
    }

    @Override
    public MemberAssignment memberAssignment(String member) {
        Set<Integer> has = held.getOrDefault(member, Set.of());
        Map<Uuid, Set<Integer>> partitions =
                has.isEmpty() ? Map.of() : Collections.singletonMap(TOPIC, has);
        return () -> Collections.unmodifiableMap(new HashMap<>(partitions));
    }

    @Override
    public int numPartitions(Uuid topic) {
        return partitions;
    }

    @Override
    public Set<String> racksForPartition(Uuid topic, int partition) {
        return Set.of();
    }
}
