package lagless.assignor;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/** A group in memory as Kafka shows it to an assignor, and the topics that it reads. */
final class World implements GroupSpec, SubscribedTopicDescriber {
    record Topic(Uuid id, String name, int partitions) {}

    record Partition(Uuid topic, int number) {}

    static final class Member implements MemberSubscription {
        final String id;
        final String instance;
        final Set<Uuid> topics;
        final Map<Uuid, Set<Integer>> has = new HashMap<>();

        Member(String id, String instance, Set<Uuid> topics) {
            this.id = id;
            this.instance = instance;
            this.topics = topics;
        }

        /** The name by which a plan knows it for sure. */
        String name() {
            return instance == null ? id : instance;
        }

        @Override
        public Optional<String> rackId() {
            return Optional.empty();
        }

        @Override
        public Optional<String> instanceId() {
            return Optional.ofNullable(instance);
        }

        @Override
        public Set<Uuid> subscribedTopicIds() {
            return topics;
        }
    }

    final List<Topic> topics = new ArrayList<>();
    final Map<String, Member> members = new TreeMap<>();

    Topic topic(int partitions) {
        int number = topics.size();
        Topic topic = new Topic(new Uuid(5, number + 1), "t" + number, partitions);
        topics.add(topic);
        return topic;
    }

    Member member(String instance, Collection<Uuid> subscribed) {
        Member member = new Member("id-" + members.size(), instance, Set.copyOf(subscribed));
        members.put(member.id, member);
        return member;
    }

    static World random(Random random, boolean alike) {
        World world = new World();
        int topics = random.nextInt(7);
        for (int i = 0; i < topics; i++) {
            world.topic(random.nextInt(10) == 0 ? 1 + random.nextInt(90) : 1 + random.nextInt(15));
        }
        int members = random.nextInt(20) == 0 ? 30 + random.nextInt(50) : random.nextInt(12);
        int named = random.nextInt(3);
        Set<Uuid> all = new HashSet<>();
        world.topics.forEach(it -> all.add(it.id));
        for (int i = 0; i < members; i++) {
            Set<Uuid> own = new HashSet<>(all);
            own.removeIf(it -> !alike && random.nextInt(3) == 0);
            boolean has = named == 1 || (named == 2 && random.nextBoolean());
            world.member(has ? "c-" + i : null, own);
        }
        return world;
    }

    /** Gives members partitions at random; some of what nobody may have any more, some to nobody. */
    void shuffle(Random random) {
        List<Member> all = new ArrayList<>(members.values());
        all.forEach(it -> it.has.clear());
        int free = random.nextInt(4);
        int few = random.nextBoolean() ? all.size() : Math.min(2, all.size());
        for (Topic topic : topics) {
            for (int partition = 0; partition < topic.partitions; partition++) {
                if (few > 0 && random.nextInt(4) >= free) {
                    all.get(random.nextInt(few))
                            .has
                            .computeIfAbsent(topic.id, it -> new HashSet<>())
                            .add(partition);
                }
            }
        }
        freeze();
    }

    /** Lets members have what an assignor gave them. */
    void apply(GroupAssignment assignment) {
        members.values()
                .forEach(
                        it -> {
                            it.has.clear();
                            it.has.putAll(assignment.members().get(it.id).partitions());
                        });
        freeze();
    }

    private void freeze() {
        members.values().forEach(it -> it.has.replaceAll((topic, set) -> Set.copyOf(set)));
    }

    /** Returns a plan for some members and topics, and some that are not there. */
    Plan plan(Random random) {
        List<String> names = new ArrayList<>();
        int known = random.nextInt(4);
        for (Member member : members.values()) {
            if (random.nextInt(4) < known) {
                names.add(random.nextInt(6) == 0 ? "x-" + names.size() : member.name());
            } else if (random.nextBoolean()) {
                names.add("consumer " + names.size());
            }
        }
        names.add("nobody");
        int share = 1 + random.nextInt(4);
        Map<String, int[]> rows = new HashMap<>();
        for (Topic topic : topics) {
            if (random.nextInt(5) == 0) {
                continue;
            }
            int[] row = new int[Math.max(1, topic.partitions + random.nextInt(4) - 1)];
            for (int partition = 0; partition < row.length; partition++) {
                boolean left = random.nextInt(4) >= share;
                row[partition] = left ? -1 : random.nextInt(names.size());
            }
            rows.put(topic.name, row);
        }
        rows.put("unknown", new int[] {0});
        return plan(names, rows);
    }

    static Plan plan(List<String> names, Map<String, int[]> rows) {
        Map<String, Integer> numbers = new HashMap<>();
        names.forEach(it -> numbers.put(it, numbers.size()));
        return new Plan("g", 1, System.currentTimeMillis(), names, numbers, rows);
    }

    /** Returns what a reader would know: this group has this plan, or none. */
    Plans plans(Plan plan) {
        Map<Uuid, String> ids = new HashMap<>();
        topics.forEach(it -> ids.put(it.id, it.name));
        Map<String, String> groups = new HashMap<>();
        members.keySet().forEach(it -> groups.put(it, "g"));
        Map<String, Plan> byGroup = plan == null ? Map.of() : Map.of("g", plan);
        return new Plans(true, byGroup, ids, groups, Plans.noneJoined());
    }

    GroupAssignment assign(Plan plan) {
        return assign(plan, true);
    }

    GroupAssignment assign(Plan plan, boolean settled) {
        return PlanAssignor.assign(this, this, plans(plan), 3_600_000, settled);
    }

    Map<Partition, String> owners() {
        Map<Partition, String> owners = new HashMap<>();
        for (Member member : members.values()) {
            for (var held : member.has.entrySet()) {
                held.getValue()
                        .forEach(it -> owners.put(new Partition(held.getKey(), it), member.id));
            }
        }
        return owners;
    }

    @Override
    public int numPartitions(Uuid topic) {
        return topics.stream()
                .filter(it -> it.id.equals(topic))
                .mapToInt(Topic::partitions)
                .findFirst()
                .orElse(-1);
    }

    @Override
    public Set<String> racksForPartition(Uuid topic, int partition) {
        return Set.of();
    }

    @Override
    public Collection<String> memberIds() {
        List<String> ids = new ArrayList<>(members.keySet());
        Collections.shuffle(ids);
        return ids;
    }

    @Override
    public SubscriptionType subscriptionType() {
        long kinds = members.values().stream().map(it -> it.topics).distinct().count();
        return kinds < 2 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    @Override
    public boolean isPartitionAssigned(Uuid topic, int partition) {
        return owners().containsKey(new Partition(topic, partition));
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
        Map<Uuid, Set<Integer>> has = Collections.unmodifiableMap(members.get(member).has);
        return () -> has;
    }
}
