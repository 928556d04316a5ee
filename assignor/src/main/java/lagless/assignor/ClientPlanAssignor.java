package lagless.assignor;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;

/**
 * The same for Java consumers with the classic protocol, on brokers that take no plugins: {@code
 * partition.assignment.strategy=lagless.assignor.ClientPlanAssignor}.
 *
 * <p>It runs in the member that leads the group, knows the group by its name, and follows
 * {@code <group>.plan} with that consumer's own connection. Partitions move cooperatively: a member
 * is only given what nobody else has, so a move takes two rebalances and the others read on. What
 * it will be given is promised to it, and it says so in the next rebalance: between the two the
 * group looks as if the move were over, so that the second answer is the first one.
 */
public final class ClientPlanAssignor implements ConsumerPartitionAssignor, Configurable {
    private static final RareLog LOG = new RareLog();

    private String group = "";
    private PlanReader reader;
    private boolean waited;
    private ByteBuffer promised;

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return promised == null ? null : promised.duplicate();
    }

    @Override
    public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
        promised = assignment.userData();
    }

    @Override
    public void configure(Map<String, ?> properties) {
        Object id = properties.get("group.id");
        group = id == null ? "" : id.toString();
        reader = PlanReader.shared(Settings.ofClient(properties, group));
    }

    @Override
    public String name() {
        return "lagless";
    }

    @Override
    public List<RebalanceProtocol> supportedProtocols() {
        return List.of(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER);
    }

    @Override
    public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
        Plan plan = null;
        try {
            reader.awaitPlans(waited ? 0 : reader.settings.patience());
            waited = true;
            plan = reader.plans().byGroup.get(group);
            if (plan != null
                    && !plan.isFresh(System.currentTimeMillis(), reader.settings.maxAge())) {
                plan = null;
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        try {
            return assign(cluster, subscriptions, plan);
        } catch (RuntimeException error) {
            LOG.warn("assign", "cannot carry out the plan of " + group, error);
            return assign(cluster, subscriptions, null);
        }
    }

    static GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions, Plan plan) {
        List<Group.Member<String>> members = new ArrayList<>();
        List<Subscription> asked = new ArrayList<>();
        new TreeMap<>(subscriptions.groupSubscription())
                .forEach(
                        (id, subscription) -> {
                            members.add(
                                    new Group.Member<>(
                                            id,
                                            subscription.groupInstanceId().orElse(null),
                                            subscription.topics()));
                            asked.add(subscription);
                        });
        Group<String> group = new Group<>(members, false, it -> count(cluster, it));
        int[] has = hold(group, asked);
        int[][] planned = group.planned(plan, Function.identity());
        int[] owner = Placement.place(group, plan, planned, true);
        List<List<TopicPartition>> given = new ArrayList<>();
        List<List<TopicPartition>> later = new ArrayList<>();
        members.forEach(
                it -> {
                    given.add(new ArrayList<>());
                    later.add(new ArrayList<>());
                });
        for (int topic = 0; topic < group.topics.size(); topic++) {
            for (int place = group.first[topic]; place < group.first[topic + 1]; place++) {
                if (owner[place] == Group.NOBODY) {
                    continue;
                }
                // Who has it must let go first; then the group rebalances again.
                boolean free = has[place] == Group.NOBODY || has[place] == owner[place];
                int partition = place - group.first[topic];
                (free ? given : later)
                        .get(owner[place])
                        .add(new TopicPartition(group.topics.get(topic), partition));
            }
        }
        Map<String, Assignment> all = new HashMap<>();
        for (int member = 0; member < members.size(); member++) {
            ByteBuffer promise = Promise.write(later.get(member));
            all.put(members.get(member).id(), new Assignment(given.get(member), promise));
        }
        return new GroupAssignment(all);
    }

    /**
     * Notes who has what, and of the rest, to whom it is promised. Of two that claim a partition,
     * the later generation is right.
     *
     * @return who really has what
     */
    private static int[] hold(Group<String> group, List<Subscription> asked) {
        claim(group, asked, Subscription::ownedPartitions);
        int[] has = group.holder.clone();
        claim(group, asked, it -> Promise.read(it.userData()));
        return has;
    }

    private static void claim(
            Group<String> group,
            List<Subscription> asked,
            Function<Subscription, List<TopicPartition>> claimed) {
        int[] before = group.holder.clone();
        int[] generation = new int[before.length];
        for (int member = 0; member < asked.size(); member++) {
            int own = asked.get(member).generationId().orElse(-1);
            for (TopicPartition claim : claimed.apply(asked.get(member))) {
                int place = group.placeFor(member, claim.topic(), claim.partition());
                if (place == Group.NOBODY || before[place] != Group.NOBODY) {
                    continue;
                }
                if (group.holder[place] == Group.NOBODY || own > generation[place]) {
                    group.holder[place] = member;
                    generation[place] = own;
                }
            }
        }
    }

    private static int count(Cluster cluster, String topic) {
        Integer partitions = cluster.partitionCountForTopic(topic);
        return partitions == null ? 0 : partitions;
    }
}
