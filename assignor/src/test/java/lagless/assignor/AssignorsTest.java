package lagless.assignor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import lagless.assignor.World.Member;
import lagless.assignor.World.Topic;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.junit.jupiter.api.Test;

/** The two doors: what Kafka calls. */
class AssignorsTest {
    @Test
    void inAClientPartitionsAreLetGoFirstAndThenLieAsInABroker() {
        Seeds.forEach(
                3_000,
                random -> {
                    World world = World.random(random, random.nextBoolean());
                    world.shuffle(random);
                    Plan plan = random.nextInt(4) == 0 ? null : world.plan(random);
                    Cluster cluster = cluster(world);
                    Map<String, List<TopicPartition>> has = held(world);
                    Map<String, ByteBuffer> promised = new HashMap<>();
                    for (int round = 0; ; round++) {
                        Map<String, List<TopicPartition>> before = has;
                        Map<TopicPartition, String> owners = new HashMap<>();
                        before.forEach((id, all) -> all.forEach(it -> owners.put(it, id)));
                        Map<String, List<TopicPartition>> given = new HashMap<>();
                        Map<String, Assignment> answer =
                                assignment(world, cluster, before, promised, plan);
                        answer.forEach((id, it) -> given.put(id, it.partitions()));
                        answer.forEach((id, it) -> promised.put(id, it.userData()));
                        Set<TopicPartition> seen = new HashSet<>();
                        given.forEach(
                                (id, all) ->
                                        all.forEach(
                                                it -> {
                                                    assertTrue(seen.add(it));
                                                    assertEquals(id, owners.getOrDefault(it, id));
                                                }));
                        if (given.equals(before)) {
                            break;
                        }
                        assertTrue(round < 2, "it does not come to rest");
                        has = given;
                    }
                    world.members.values().forEach(it -> it.has.clear());
                    apply(world, has);
                    Map<World.Partition, String> rest = world.owners();
                    world.apply(world.assign(plan));
                    assertEquals(rest, world.owners());
                });
    }

    @Test
    void whateverKafkaSaysTheBrokersAssignorAnswers() {
        PlanAssignor assignor = new PlanAssignor();
        assignor.configure(Map.of());
        World world = new World();
        Topic topic = world.topic(3);
        Member member = world.member(null, Set.of(topic.id()));
        member.has.put(topic.id(), Set.of(1));
        GroupAssignment kept =
                assignor.assign(
                        world,
                        new org.apache.kafka.coordinator.group.api.assignor
                                .SubscribedTopicDescriber() {
                            @Override
                            public int numPartitions(Uuid id) {
                                throw new StackOverflowError();
                            }

                            @Override
                            public Set<String> racksForPartition(Uuid id, int partition) {
                                throw new IllegalStateException();
                            }
                        });
        assertEquals(Map.of(topic.id(), Set.of(1)), kept.members().get(member.id).partitions());
        assertEquals(Map.of(), assignor.assign((GroupSpec) null, null).members());
    }

    @Test
    void withoutConfigurationTheAssignorsSpreadEvenly() {
        World world = new World();
        Topic topic = world.topic(4);
        world.member(null, Set.of(topic.id()));
        world.member(null, Set.of(topic.id()));
        GroupAssignment given = new PlanAssignor().assign(world, world);
        given.members().values().forEach(it -> assertEquals(2, it.partitions().get(topic.id()).size()));
        ClientPlanAssignor client = new ClientPlanAssignor();
        client.configure(Map.of("group.id", "g"));
        GroupSubscription asked = new GroupSubscription(subscriptions(world, Map.of(), Map.of()));
        client.assign(cluster(world), asked)
                .groupAssignment()
                .values()
                .forEach(it -> assertEquals(2, it.partitions().size()));
    }

    private static Map<String, Assignment> assignment(
            World world,
            Cluster cluster,
            Map<String, List<TopicPartition>> has,
            Map<String, ByteBuffer> promised,
            Plan plan) {
        GroupSubscription asked = new GroupSubscription(subscriptions(world, has, promised));
        return ClientPlanAssignor.assign(cluster, asked, plan).groupAssignment();
    }

    private static Map<String, Subscription> subscriptions(
            World world,
            Map<String, List<TopicPartition>> has,
            Map<String, ByteBuffer> promised) {
        Map<String, Subscription> all = new HashMap<>();
        for (Member member : world.members.values()) {
            List<String> topics =
                    world.topics.stream()
                            .filter(it -> member.topics.contains(it.id()))
                            .map(Topic::name)
                            .toList();
            List<TopicPartition> owned = has.getOrDefault(member.id, List.of());
            Subscription asked = new Subscription(topics, promised.get(member.id), owned, 1, Optional.empty());
            asked.setGroupInstanceId(Optional.ofNullable(member.instance));
            all.put(member.id, asked);
        }
        return all;
    }

    private static Cluster cluster(World world) {
        Node node = new Node(1, "h", 1);
        List<PartitionInfo> partitions = new ArrayList<>();
        for (Topic topic : world.topics) {
            for (int number = 0; number < topic.partitions(); number++) {
                Node[] one = {node};
                partitions.add(new PartitionInfo(topic.name(), number, node, one, one));
            }
        }
        return new Cluster("c", List.of(node), partitions, Set.of(), Set.of());
    }

    /** Returns what members have and still subscribe to: the rest a client gives up by itself. */
    private static Map<String, List<TopicPartition>> held(World world) {
        Map<String, List<TopicPartition>> has = new HashMap<>();
        for (Member member : world.members.values()) {
            List<TopicPartition> own = new ArrayList<>();
            for (Topic topic : world.topics) {
                if (member.topics.contains(topic.id())) {
                    member.has.getOrDefault(topic.id(), Set.of()).stream()
                            .sorted()
                            .forEach(it -> own.add(new TopicPartition(topic.name(), it)));
                }
            }
            has.put(member.id, own);
        }
        return has;
    }

    private static void apply(World world, Map<String, List<TopicPartition>> has) {
        has.forEach(
                (id, all) -> {
                    for (TopicPartition held : all) {
                        Uuid topic = world.topics.get(Integer.parseInt(held.topic().substring(1))).id();
                        Set<Integer> numbers = new HashSet<>(Set.of(held.partition()));
                        numbers.addAll(world.members.get(id).has.getOrDefault(topic, Set.of()));
                        world.members.get(id).has.put(topic, numbers);
                    }
                });
    }
}
