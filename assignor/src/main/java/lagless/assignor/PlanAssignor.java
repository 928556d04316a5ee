package lagless.assignor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * The assignor "lagless" of a broker, for members with {@code group.protocol=consumer} and {@code
 * group.remote.assignor=lagless}.
 *
 * <p>Kafka calls it on the group coordinator's thread, and an exception would end every member of
 * the group: so it only looks at what is in memory, and answers whatever happens.
 */
public final class PlanAssignor implements ConsumerGroupPartitionAssignor, Configurable {
    public static final String NAME = "lagless";

    private static final RareLog LOG = new RareLog();

    private volatile PlanReader reader;
    private volatile long firstAssigned;

    @Override
    public void configure(Map<String, ?> properties) {
        reader = PlanReader.shared(Settings.ofBroker(properties));
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer) {
        try {
            PlanReader known = reader;
            if (known == null) {
                return assign(spec, describer, Plans.NONE, Long.MAX_VALUE, true);
            }
            Plans plans = known.plans();
            return assign(spec, describer, plans, known.settings.maxAge(), isSettled(known, plans));
        } catch (Throwable error) {
            LOG.warn("assign", "cannot carry out a plan: the group stays as it is", error);
            return asItIs(spec);
        }
    }

    /**
     * Assigns by the plans that are given.
     *
     * @param settled whether these are all plans: if not, partitions that somebody has stay where
     *     they are, since a plan that has not been read yet may have put them there. A member
     *     without any outweighs that.
     */
    static GroupAssignment assign(
            GroupSpec spec,
            SubscribedTopicDescriber describer,
            Plans plans,
            long maxAge,
            boolean settled) {
        List<Group.Member<Uuid>> members = new ArrayList<>(spec.memberIds().size());
        for (String id : spec.memberIds()) {
            var subscription = spec.memberSubscription(id);
            members.add(
                    new Group.Member<>(
                            id,
                            subscription.instanceId().orElse(null),
                            subscription.subscribedTopicIds()));
        }
        members.sort(Comparator.comparing(Group.Member::id));
        boolean alike = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        Group<Uuid> group = new Group<>(members, alike, describer::numPartitions);
        boolean idle = false;
        for (int member = 0; member < members.size(); member++) {
            int number = member;
            Map<Uuid, Set<Integer>> has =
                    spec.memberAssignment(members.get(member).id()).partitions();
            has.forEach((topic, held) -> held.forEach(it -> group.hold(number, topic, it)));
            idle |= has.isEmpty();
        }
        String name = plans.groupOf(members);
        Plan plan = name == null ? null : plans.byGroup.get(name);
        if (plan != null && !plan.isFresh(System.currentTimeMillis(), maxAge)) {
            plan = null;
        }
        int[][] planned = group.planned(plan, plans.topics::get);
        return answer(group, Placement.place(group, plan, planned, settled || idle));
    }

    private boolean isSettled(PlanReader reader, Plans plans) {
        if (plans.ready) {
            return true;
        }
        // Counted from the first need, not from the broker's start, which may take minutes.
        long now = System.nanoTime();
        if (firstAssigned == 0) {
            firstAssigned = now;
        }
        return now - firstAssigned > reader.settings.patience() * 1_000_000;
    }

    private static GroupAssignment answer(Group<Uuid> group, int[] owner) {
        int[] count = new int[group.members.size()];
        for (int member : owner) {
            if (member != Group.NOBODY) {
                count[member]++;
            }
        }
        int[][] partitions = new int[count.length][];
        Arrays.setAll(partitions, member -> new int[count[member]]);
        List<Map<Uuid, Set<Integer>>> given = new ArrayList<>(count.length);
        for (int member = 0; member < count.length; member++) {
            given.add(new HashMap<>());
        }
        Arrays.fill(count, 0);
        List<Integer> touched = new ArrayList<>();
        for (int topic = 0; topic < group.topics.size(); topic++) {
            for (int place = group.first[topic]; place < group.first[topic + 1]; place++) {
                int member = owner[place];
                if (member == Group.NOBODY) {
                    continue;
                }
                if (count[member] == 0) {
                    touched.add(member);
                }
                partitions[member][count[member]++] = place - group.first[topic];
            }
            for (int member : touched) {
                int[] ascending = Arrays.copyOf(partitions[member], count[member]);
                given.get(member).put(group.topics.get(topic), new IntSet(ascending));
                count[member] = 0;
            }
            touched.clear();
        }
        Map<String, MemberAssignment> all = new HashMap<>();
        for (int member = 0; member < count.length; member++) {
            // Kafka's own assignors, which may be next, insist on maps that cannot be changed.
            Map<Uuid, Set<Integer>> fixed = Collections.unmodifiableMap(given.get(member));
            all.put(group.members.get(member).id(), new Given(fixed));
        }
        return new GroupAssignment(all);
    }

    private static GroupAssignment asItIs(GroupSpec spec) {
        Map<String, MemberAssignment> all = new HashMap<>();
        try {
            spec.memberIds().forEach(id -> all.put(id, spec.memberAssignment(id)));
        } catch (Throwable error) {
            LOG.warn("spec", "cannot read what Kafka says about a group", error);
        }
        return new GroupAssignment(all);
    }

    private record Given(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment {}
}
