package lagless.assignor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;

/** Which messages count, which group they are for, and what is set. */
class PlansTest {
    private static final Uuid ORDERS = new Uuid(1, 1);
    private static final Uuid OTHER = new Uuid(1, 2);
    private static final long NOW = 1_700_000_000_000L;

    private final PlanTopics read = new PlanTopics(Settings.ofBroker(Map.of()), new RareLog());
    private long offset;

    @Test
    void aGroupIsFoundByItsMemberIdsAndSoAreThoseWhoJoinIt() {
        Plans plans = plans(Map.of("m1", "one", "m2", "two"), plan("one"), plan("two"));
        assertEquals("one", plans.groupOf(List.of(member("m1", "c-1"), member("m3", "c-2"))));
        assertEquals("one", plans.groupOf(List.of(member("m3", "c-2"))));
        assertEquals("two", plans.groupOf(List.of(member("m2", null))));
    }

    @Test
    void beforeMemberIdsAreKnownInstanceIdsDecideIfTheyCan() {
        List<Group.Member<Uuid>> members = List.of(member("m1", "c-1"), member("m2", "c-2"));
        assertEquals("one", plans(Map.of(), plan("one")).groupOf(members));
        assertNull(plans(Map.of(), plan("one"), plan("two")).groupOf(members), "two are as likely");
        assertNull(plans(Map.of(), plan("one")).groupOf(List.of(member("m1", null))));
        List<Group.Member<Uuid>> elsewhere =
                List.of(new Group.Member<>("m1", "c-1", Set.of(OTHER)));
        assertNull(plans(Map.of(), plan("one")).groupOf(elsewhere), "it reads other topics");
        Plans full = plans(Map.of("m9", "one"), plan("one"));
        assertNull(full.groupOf(members), "that group has other members");
    }

    @Test
    void theNewestPlanCountsUntilATombstone() {
        accept("g.plan", "g", text("g", 2, "a"));
        accept("g.plan", "g", text("g", 1, "b"));
        assertEquals(List.of("a"), read.plans().get("g").members());
        accept("g.plan", "g", "garbage");
        accept("g.plan", null, text("g", 3, "b"));
        accept("g.plan", "g", text("h", 3, "b"));
        accept("g.plan", "h", text("h", 3, "b"));
        accept("h.plan", "g", null);
        assertEquals(List.of("a"), read.plans().get("g").members());
        assertEquals(Set.of("g"), read.plans().keySet());
        accept("g.plan", "g", null);
        assertEquals(Map.of(), read.plans());
        accept("g.plan", "g", text("g", 1, "b"));
        assertEquals(List.of("b"), read.plans().get("g").members());
    }

    @Test
    void aPlanThatIsTooOldGivesWayToALowerGeneration() {
        accept("g.plan", "g", text("g", 9, "a").replace("1700000000", "1600000000"));
        accept("g.plan", "g", text("g", 1, "b"));
        assertEquals(List.of("b"), read.plans().get("g").members());
    }

    @Test
    void aTopicThatIsGoneOrMadeAgainTakesItsPlansWithIt() {
        read.found(Map.of("g.plan", ORDERS));
        accept("g.plan", "g", text("g", 2, "a"));
        assertEquals(Set.of(), read.found(Map.of("g.plan", ORDERS, "h.plan", OTHER)));
        assertEquals(1, read.plans().size());
        assertEquals(Set.of("g.plan", "h.plan"), read.found(Map.of("g.plan", OTHER)));
        assertEquals(0, read.plans().size());
    }

    @Test
    void memoryIsBoundedHoweverManyGroupsThereAre() {
        Settings any = Settings.ofBroker(Map.of("lagless.plan.topic.pattern", "plans"));
        PlanTopics all = new PlanTopics(any, new RareLog());
        for (int group = 0; group < PlanTopics.GROUPS + 50; group++) {
            String name = "g" + group;
            all.accept(record("plans", name, text(name, 1, "a")), NOW);
        }
        assertEquals(PlanTopics.GROUPS, all.plans().size());
        PlanTopics wide = new PlanTopics(any, new RareLog());
        for (int group = 0; group < 200; group++) {
            String name = "g" + group;
            String text = text(name, 1, "a").replace("[0]", "[199000]");
            wide.accept(record("plans", name, text), NOW);
        }
        int slots = wide.plans().values().stream().mapToInt(Plan::slots).sum();
        assertTrue(slots <= PlanTopics.SLOTS, slots + "");
    }

    @Test
    void aPlanAgesAndOneFromTheFutureDoesNotCount() {
        Plan plan = plan("g");
        assertTrue(plan.isFresh(NOW, 1_000));
        assertTrue(plan.isFresh(NOW + 1_000, 1_000));
        assertTrue(!plan.isFresh(NOW + 1_001, 1_000));
        assertTrue(plan.isFresh(NOW - 60_000, 1_000));
        assertTrue(!plan.isFresh(NOW - 60_001, 1_000));
    }

    @Test
    void assignorsWithTheSameSettingsShareOneReader() {
        Map<String, String> set = Map.of("lagless.plan.max.age.ms", "5000");
        PlanReader one = PlanReader.shared(Settings.ofBroker(set));
        assertSame(one, PlanReader.shared(Settings.ofBroker(new HashMap<>(set))));
        assertNotSame(one, PlanReader.shared(Settings.ofBroker(Map.of())));
    }

    @Test
    void settingsWithThePrefixReachTheClients() {
        Settings settings =
                Settings.ofBroker(
                        Map.of(
                                "lagless.bootstrap.servers", "a:1",
                                "lagless.sasl.mechanism", "PLAIN",
                                "lagless.plan.max.age.ms", "9",
                                "sasl.mechanism", "GSSAPI"));
        assertEquals(
                Map.of("bootstrap.servers", "a:1", "sasl.mechanism", "PLAIN"), settings.clients());
        assertEquals(9, settings.maxAge());
        assertEquals("orders", settings.topics().groupOf("orders.plan"));
        assertNull(settings.topics().groupOf("orders.plans"));
    }

    @Test
    void aPlaintextBrokerIsFollowedWithoutAnySetting() {
        String both = "PLAINTEXT://:9092,CONTROLLER://:9093";
        assertEquals("localhost:9092", address(Map.of("listeners", both)));
        assertEquals(
                "b:9", address(Map.of("listeners", both, "advertised.listeners", "PLAINTEXT://b:9")));
        Map<String, String> named =
                Map.of(
                        "listeners", "IN://h:1,OUT://h:2",
                        "inter.broker.listener.name", "IN",
                        "listener.security.protocol.map", "OUT:SSL, IN:PLAINTEXT");
        assertEquals("h:1", address(named));
        Map<String, String> secure = new HashMap<>(named);
        secure.put("inter.broker.listener.name", "OUT");
        assertNull(address(secure));
    }

    @Test
    void aWrongSettingIsRefusedByName() {
        for (String[] wrong :
                new String[][] {
                    {"lagless.plan.max.age.ms", "soon"},
                    {"lagless.plan.refresh.ms", "0"},
                    {"lagless.plan.topic.pattern", "("},
                    {"lagless.plan.max.aeg.ms", "5"},
                }) {
            ConfigException error =
                    assertThrows(
                            ConfigException.class,
                            () -> Settings.ofBroker(Map.of(wrong[0], wrong[1])));
            assertTrue(error.getMessage().contains(wrong[0]), error.getMessage());
        }
    }

    private static Object address(Map<String, String> properties) {
        return Settings.ofBroker(properties).clients().get("bootstrap.servers");
    }

    private void accept(String topic, String key, String value) {
        read.accept(record(topic, key, value), NOW);
    }

    private ConsumerRecord<byte[], byte[]> record(String topic, String key, String value) {
        return new ConsumerRecord<>(topic, 0, offset++, bytes(key), bytes(value));
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(String group, int generation, String member) {
        return "{\"version\":1,\"group\":\"%s\",\"generation\":%d,\"at\":1700000000,\"members\":{\"%s\":{\"t\":[0]}}}"
                .formatted(group, generation, member);
    }

    private static Plan plan(String group) {
        Map<String, Integer> numbers = Map.of("c-1", 0, "c-2", 1);
        Map<String, int[]> topics = Map.of("orders", new int[] {0, 1});
        return new Plan(group, 1, NOW, List.of("c-1", "c-2"), numbers, topics);
    }

    private static Group.Member<Uuid> member(String id, String instance) {
        return new Group.Member<>(id, instance, Set.of(ORDERS));
    }

    private static Plans plans(Map<String, String> members, Plan... plans) {
        Map<String, Plan> byGroup = new HashMap<>();
        for (Plan plan : plans) {
            byGroup.put(plan.group(), plan);
        }
        Map<Uuid, String> names = Map.of(ORDERS, "orders", OTHER, "other");
        return new Plans(true, byGroup, names, members, Plans.noneJoined());
    }
}
