package lagless.assignor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import lagless.assignor.World.Member;
import lagless.assignor.World.Partition;
import lagless.assignor.World.Topic;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.junit.jupiter.api.Test;

/** What holds for every group and every plan. */
class PlacementTest {
    private static final int CASES = 10_000;

    @Test
    void everyPartitionHasExactlyOneMemberThatSubscribedToIt() {
        Seeds.forEach(
                CASES,
                random -> {
                    World world = World.random(random, random.nextBoolean());
                    world.shuffle(random);
                    Plan plan = random.nextInt(5) == 0 ? null : world.plan(random);
                    GroupAssignment assigned = world.assign(plan, random.nextBoolean());
                    assertEquals(world.members.keySet(), assigned.members().keySet());
                    check(world, assigned);
                });
    }

    @Test
    void whatIsPlannedForAMemberThatIsThereGoesToIt() {
        Seeds.forEach(
                CASES,
                random -> {
                    World world = World.random(random, random.nextBoolean());
                    world.shuffle(random);
                    Plan plan = world.plan(random);
                    world.apply(world.assign(plan));
                    Map<Partition, String> owners = world.owners();
                    for (Member member : world.members.values()) {
                        Integer number = plan.numbers().get(member.name());
                        if (number != null) {
                            planned(world, plan, number, member)
                                    .forEach(it -> assertEquals(member.id, owners.get(it)));
                        }
                    }
                });
    }

    @Test
    void nothingMovesWhileGroupAndPlanStayTheSame() {
        Seeds.forEach(
                CASES,
                random -> {
                    World world = World.random(random, random.nextBoolean());
                    world.shuffle(random);
                    Plan plan = random.nextInt(5) == 0 ? null : world.plan(random);
                    GroupAssignment first = world.assign(plan);
                    world.apply(first);
                    Map<Partition, String> owners = world.owners();
                    world.apply(world.assign(plan));
                    assertEquals(owners, world.owners());
                });
    }

    @Test
    void withoutAPlanMembersHaveAsManyAsKafkasUniformGivesAndKeepNoLess() {
        Seeds.forEach(
                CASES,
                random -> {
                    World world = World.random(random, true);
                    world.shuffle(random);
                    GroupAssignment ours = world.assign(null);
                    GroupAssignment kafkas = new UniformAssignor().assign(world, world);
                    assertEquals(counts(kafkas), counts(ours));
                    assertTrue(kept(world, ours) >= kept(world, kafkas));
                });
    }

    @Test
    void withDifferentSubscriptionsItIsAsEvenAsKafkasUniformDemands() {
        Seeds.forEach(
                CASES,
                random -> {
                    World world = World.random(random, false);
                    world.shuffle(random);
                    world.apply(world.assign(null));
                    Map<Partition, String> owners = world.owners();
                    Map<String, Integer> count = new HashMap<>();
                    owners.values().forEach(it -> count.merge(it, 1, Integer::sum));
                    owners.forEach(
                            (partition, owner) -> {
                                for (Member other : world.members.values()) {
                                    int has = count.getOrDefault(other.id, 0);
                                    assertFalse(
                                            other.topics.contains(partition.topic())
                                                    && has + 1 < count.get(owner),
                                            "one could move");
                                }
                            });
                });
    }

    @Test
    void beforeThePlansAreReadNobodyLosesAPartitionUnlessSomebodyHasNone() {
        Seeds.forEach(
                CASES,
                random -> {
                    World world = World.random(random, random.nextBoolean());
                    world.shuffle(random);
                    if (world.members.values().stream().anyMatch(it -> it.has.isEmpty())) {
                        return;
                    }
                    Map<Partition, String> before = world.owners();
                    world.apply(world.assign(null, false));
                    Map<Partition, String> after = world.owners();
                    before.forEach(
                            (partition, owner) -> {
                                if (world.members.get(owner).topics.contains(partition.topic())) {
                                    assertEquals(owner, after.get(partition));
                                }
                            });
                });
    }

    @Test
    void membersWithoutNamesKeepAsManyAsAnyMatchingAllows() {
        Seeds.forEach(
                2_000,
                random -> {
                    int members = 1 + random.nextInt(5);
                    int consumers = 1 + random.nextInt(5);
                    World world = new World();
                    Topic topic = world.topic(1 + random.nextInt(40));
                    for (int i = 0; i < members; i++) {
                        world.member(null, Set.of(topic.id()));
                    }
                    world.shuffle(random);
                    int[] row = random.ints(topic.partitions(), -1, consumers).toArray();
                    List<String> names = List.of("1", "2", "3", "4", "5").subList(0, consumers);
                    Plan plan = World.plan(names, Map.of(topic.name(), row));
                    int[][] keeps = new int[members][consumers];
                    List<Member> all = List.copyOf(world.members.values());
                    for (int member = 0; member < members; member++) {
                        for (int held : all.get(member).has.getOrDefault(topic.id(), Set.of())) {
                            if (row[held] >= 0) {
                                keeps[member][row[held]]++;
                            }
                        }
                    }
                    Group<Uuid> group = group(world);
                    int[] matched =
                            Matching.match(group, plan, new int[][] {row}, group.holder);
                    int kept = 0;
                    for (int consumer = 0; consumer < consumers; consumer++) {
                        kept += matched[consumer] < 0 ? 0 : keeps[matched[consumer]][consumer];
                    }
                    assertEquals(best(keeps, 0, new boolean[consumers]), kept);
                });
    }

    @Test
    void aLargeGroupWithoutNamesIsMatchedWithoutMoves() {
        World world = new World();
        Topic topic = world.topic(1_000);
        for (int i = 0; i < 250; i++) {
            world.member(null, Set.of(topic.id()));
        }
        int[] row = new Random(3).ints(1_000, 0, 250).toArray();
        List<String> names = IntStream.range(0, 250).mapToObj(it -> "consumer " + it).toList();
        Plan plan = World.plan(names, Map.of(topic.name(), row));
        world.apply(world.assign(plan));
        Map<Partition, String> owners = world.owners();
        List<String> others = IntStream.range(0, 250).mapToObj(it -> "c" + (999 - it)).toList();
        world.apply(world.assign(World.plan(others, Map.of(topic.name(), row))));
        assertEquals(owners, world.owners());
    }

    @Test
    void aMemberThatThePlanDoesNotKnowSharesWhatThePlanDoesNotKnow() {
        World world = new World();
        Topic topic = world.topic(9);
        Member one = world.member("c-1", Set.of(topic.id()));
        Member two = world.member("c-2", Set.of(topic.id()));
        Member stranger = world.member("s", Set.of(topic.id()));
        int[] row = {0, 0, 0, 0, 0, 1};
        world.apply(world.assign(World.plan(List.of("c-1", "c-2"), Map.of("t0", row))));
        assertTrue(one.has.get(topic.id()).containsAll(Set.of(0, 1, 2, 3, 4)));
        assertTrue(two.has.get(topic.id()).contains(5));
        assertEquals(6, one.has.get(topic.id()).size());
        assertEquals(2, two.has.get(topic.id()).size());
        assertEquals(1, stranger.has.get(topic.id()).size());
    }

    @Test
    void theShareOfAMemberThatIsGoneIsSpreadAndComesBackWithIt() {
        World world = new World();
        Topic topic = world.topic(8);
        world.member("c-1", Set.of(topic.id()));
        world.member("c-2", Set.of(topic.id()));
        Plan plan =
                World.plan(
                        List.of("c-1", "c-2", "c-3"),
                        Map.of("t0", new int[] {0, 0, 1, 1, 2, 2, 2, 2}));
        world.apply(world.assign(plan));
        assertEquals(List.of(4, 4), sizes(world));
        Member back = world.member("c-3", Set.of(topic.id()));
        world.apply(world.assign(plan));
        assertEquals(Set.of(4, 5, 6, 7), back.has.get(topic.id()));
    }

    @Test
    void aTopicThatDoesNotExistAndAGroupWithoutMembersAreNoTrouble() {
        World world = new World();
        assertEquals(Map.of(), world.assign(null).members());
        Member member = world.member(null, Set.of(new Uuid(1, 1)));
        world.apply(world.assign(null));
        assertNull(member.has.get(new Uuid(1, 1)));
    }

    private static List<Integer> sizes(World world) {
        return world.members.values().stream()
                .map(it -> it.has.values().stream().mapToInt(Set::size).sum())
                .toList();
    }

    private static Group<Uuid> group(World world) {
        List<Group.Member<Uuid>> members =
                world.members.values().stream()
                        .map(it -> new Group.Member<>(it.id, it.instance, it.topics))
                        .toList();
        Group<Uuid> group = new Group<>(members, true, world::numPartitions);
        for (int i = 0; i < members.size(); i++) {
            int member = i;
            world.members
                    .get(members.get(i).id())
                    .has
                    .forEach((topic, held) -> held.forEach(it -> group.hold(member, topic, it)));
        }
        return group;
    }

    /** Returns the largest number that any matching from this member on keeps. */
    private static int best(int[][] keeps, int member, boolean[] used) {
        if (member == keeps.length) {
            return 0;
        }
        int best = best(keeps, member + 1, used);
        for (int consumer = 0; consumer < used.length; consumer++) {
            if (!used[consumer]) {
                used[consumer] = true;
                best = Math.max(best, keeps[member][consumer] + best(keeps, member + 1, used));
                used[consumer] = false;
            }
        }
        return best;
    }

    private static Set<Partition> planned(World world, Plan plan, int number, Member member) {
        Set<Partition> planned = new HashSet<>();
        for (Topic topic : world.topics) {
            int[] row = plan.topics().getOrDefault(topic.name(), new int[0]);
            for (int partition = 0; partition < row.length; partition++) {
                if (row[partition] == number
                        && partition < topic.partitions()
                        && member.topics.contains(topic.id())) {
                    planned.add(new Partition(topic.id(), partition));
                }
            }
        }
        return planned;
    }

    private static void check(World world, GroupAssignment assigned) {
        Set<Partition> expected = new HashSet<>();
        for (Topic topic : world.topics) {
            boolean read =
                    world.members.values().stream().anyMatch(it -> it.topics.contains(topic.id()));
            for (int partition = 0; read && partition < topic.partitions(); partition++) {
                expected.add(new Partition(topic.id(), partition));
            }
        }
        Set<Partition> seen = new HashSet<>();
        for (var member : assigned.members().entrySet()) {
            for (var given : member.getValue().partitions().entrySet()) {
                Uuid topic = given.getKey();
                assertTrue(world.members.get(member.getKey()).topics.contains(topic));
                assertFalse(given.getValue().isEmpty());
                for (int number : given.getValue()) {
                    assertTrue(given.getValue().contains(number));
                    assertTrue(seen.add(new Partition(topic, number)), "two members");
                }
            }
        }
        assertEquals(expected, seen);
    }

    private static List<Integer> counts(GroupAssignment assigned) {
        return assigned.members().values().stream()
                .map(it -> it.partitions().values().stream().mapToInt(Set::size).sum())
                .filter(it -> it > 0)
                .sorted()
                .toList();
    }

    private static long kept(World world, GroupAssignment assigned) {
        return world.owners().entrySet().stream()
                .filter(
                        it -> {
                            Partition held = it.getKey();
                            var given = assigned.members().get(it.getValue());
                            return given != null
                                    && given.partitions()
                                            .getOrDefault(held.topic(), Set.of())
                                            .contains(held.number());
                        })
                .count();
    }
}
