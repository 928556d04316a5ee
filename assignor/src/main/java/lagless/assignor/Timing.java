package lagless.assignor;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BiFunction;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * Measures on this machine how long an assignment takes, and prints a table.
 *
 * <p>{@code java -cp '/opt/kafka/libs/*' lagless.assignor.Timing [partitions] [members]}
 */
public final class Timing {
    private static final int TOPICS = 100;
    private static final int WARM_UP = 300;
    private static final int RUNS = 100;
    private static final String UNIFORM =
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor";

    private final int partitions;
    private final Uuid[] topics = new Uuid[TOPICS];
    private final Map<Uuid, String> names = new HashMap<>();
    private final Random random = new Random(1);

    private Timing(int partitions) {
        this.partitions = partitions;
        for (int topic = 0; topic < TOPICS; topic++) {
            topics[topic] = new Uuid(7, topic + 1);
            names.put(topics[topic], "topic-" + topic);
        }
    }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        int partitions = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 50_000;
        int members = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 1_000;
        System.out.printf("%,d partitions, %,d members: milliseconds%n%n", partitions, members);
        System.out.println("| case | processor, median | clock, median | clock, worst of 100 |");
        System.out.println("| --- | ---: | ---: | ---: |");
        new Timing(partitions).run(members);
    }

    private void run(int members) throws ReflectiveOperationException {
        Plan plan = plan(members, 0);
        Plan next = plan(members, 10);
        Spec named = new Spec(members, true, TOPICS);
        Spec following = named.having(assign(named, plan));
        measure("plan unchanged", following, plan);
        measure("a tenth of the plan changed", following, next);
        measure("first assignment by a plan", named, plan);
        Spec unnamed = new Spec(members, false, TOPICS);
        Spec holding = unnamed.having(assign(unnamed, plan));
        measure("members without names, a tenth of the plan changed", holding, next);
        Spec mixed = new Spec(members, true, TOPICS / 2);
        Spec differing = mixed.having(assign(mixed, plan));
        measure("members with different topics, a tenth of the plan changed", differing, next);
        measure("no plan, first assignment", named, null);
        measure("no plan, nothing changed", named.having(assign(named, null)), null);
        measure("a plan that is lost: everything is evened out", following, null);
        ConsumerGroupPartitionAssignor uniform =
                (ConsumerGroupPartitionAssignor)
                        Class.forName(UNIFORM).getDeclaredConstructor().newInstance();
        time("Kafka's uniform, first assignment", named, uniform::assign);
        Spec even = named.having(uniform.assign(named, describer()));
        time("Kafka's uniform, nothing changed", even, uniform::assign);
    }

    private void measure(String title, Spec spec, Plan plan) {
        Plans plans = plans(plan);
        time(
                title,
                spec,
                (group, describer) ->
                        PlanAssignor.assign(group, describer, plans, Long.MAX_VALUE / 4, true));
    }

    private void time(
            String title,
            Spec spec,
            BiFunction<GroupSpec, SubscribedTopicDescriber, GroupAssignment> assignor) {
        ThreadMXBean thread = ManagementFactory.getThreadMXBean();
        double[] millis = new double[RUNS];
        double[] processor = new double[RUNS];
        for (int run = -WARM_UP; run < RUNS; run++) {
            long used = thread.getCurrentThreadCpuTime();
            long began = System.nanoTime();
            GroupAssignment assigned = assignor.apply(spec, describer());
            double taken = (System.nanoTime() - began) / 1e6;
            if (assigned.members().size() != spec.memberIds().size()) {
                throw new IllegalStateException("members are missing");
            }
            millis[Math.max(0, run)] = taken;
            processor[Math.max(0, run)] = (thread.getCurrentThreadCpuTime() - used) / 1e6;
        }
        Arrays.sort(millis);
        Arrays.sort(processor);
        double middle = processor[RUNS / 2];
        System.out.printf(
                "| %s | %.1f | %.1f | %.1f |%n",
                title, middle, millis[RUNS / 2], millis[RUNS - 1]);
    }

    private GroupAssignment assign(Spec spec, Plan plan) {
        return PlanAssignor.assign(spec, describer(), plans(plan), Long.MAX_VALUE / 4, true);
    }

    private SubscribedTopicDescriber describer() {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return partitions / TOPICS;
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }

    /** Returns a plan that gives members uneven numbers, and moves so many percent at random. */
    private Plan plan(int members, int percent) {
        Random same = new Random(2);
        Map<String, int[]> rows = new HashMap<>();
        for (String name : names.values()) {
            int[] row = new int[partitions / TOPICS];
            for (int partition = 0; partition < row.length; partition++) {
                double square = Math.pow(same.nextDouble(), 2);
                boolean moves = random.nextInt(100) < percent;
                row[partition] = moves ? random.nextInt(members) : (int) (square * members);
            }
            rows.put(name, row);
        }
        Map<String, Integer> numbers = new TreeMap<>();
        for (int member = 0; member < members; member++) {
            numbers.put("c-%05d".formatted(member), member);
        }
        long now = System.currentTimeMillis();
        return new Plan("g", 1, now, numbers.keySet().stream().toList(), numbers, rows);
    }

    private Plans plans(Plan plan) {
        if (plan == null) {
            return new Plans(true, Map.of(), Map.of(), Map.of(), Plans.noneJoined());
        }
        Map<String, String> members = new HashMap<>();
        for (int member = 0; member < plan.members().size(); member++) {
            members.put(id(member), plan.group());
        }
        return new Plans(true, Map.of("g", plan), names, members, Plans.noneJoined());
    }

    private static String id(int member) {
        return new Uuid(9, member + 1).toString();
    }

    /** A group as Kafka shows it. */
    private final class Spec implements GroupSpec {
        private final Map<String, Member> members;
        private final boolean alike;
        private final Map<String, MemberAssignment> has;
        private final Map<Uuid, Set<Integer>> assigned = new HashMap<>();

        Spec(int count, boolean named, int taken) {
            members = new HashMap<>();
            alike = taken == TOPICS;
            has = Map.of();
            for (int member = 0; member < count; member++) {
                Set<Uuid> own = new HashSet<>();
                for (int topic = 0; topic < taken; topic++) {
                    own.add(topics[(member % 4 + topic) % TOPICS]);
                }
                String name = named ? "c-%05d".formatted(member) : null;
                members.put(id(member), new Member(Optional.ofNullable(name), own));
            }
        }

        private Spec(Spec other, GroupAssignment assignment) {
            members = other.members;
            alike = other.alike;
            has = assignment.members();
            for (MemberAssignment held : has.values()) {
                held.partitions()
                        .forEach(
                                (topic, numbers) ->
                                        assigned.computeIfAbsent(topic, it -> new HashSet<>())
                                                .addAll(numbers));
            }
        }

        Spec having(GroupAssignment assignment) {
            return new Spec(this, assignment);
        }

        @Override
        public Collection<String> memberIds() {
            return members.keySet();
        }

        @Override
        public SubscriptionType subscriptionType() {
            return alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        }

        @Override
        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return assigned.getOrDefault(topic, Set.of()).contains(partition);
        }

        @Override
        public boolean isPartitionAssignable(Uuid topic, int partition) {
            return true;
        }

        @Override
        public MemberSubscription memberSubscription(String member) {
            return members.get(member);
        }

        @Override
        public MemberAssignment memberAssignment(String member) {
            MemberAssignment known = has.get(member);
            // Kafka's assignors insist on maps that cannot be changed, and Kafka gives them such.
            return known == null
                    ? Collections::emptyMap
                    : () -> Collections.unmodifiableMap(known.partitions());
        }
    }

    private record Member(Optional<String> instanceId, Set<Uuid> subscribedTopicIds)
            implements MemberSubscription {
        @Override
        public Optional<String> rackId() {
            return Optional.empty();
        }
    }
}
