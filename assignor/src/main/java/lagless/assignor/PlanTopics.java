package lagless.assignor;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.Uuid;

/** The plans that were read, and the rules by which a message becomes one; does no I/O. */
final class PlanTopics {
    static final int TOPICS = 1_000;
    static final int GROUPS = 1_000;
    static final int SLOTS = 10_000_000;

    /** A plan and the topic that it came from. */
    private record Read(String topic, Plan plan) {}

    private final Settings settings;
    private final RareLog log;
    private final Map<String, Uuid> topics = new HashMap<>();
    private final Map<String, Read> byGroup = new HashMap<>();
    private final Set<String> complained = new HashSet<>();

    PlanTopics(Settings settings, RareLog log) {
        this.settings = settings;
        this.log = log;
    }

    /**
     * Notes which plan topics there are, forgets the plans of those that are gone or were made anew
     * under the same name, and returns these names.
     */
    Set<String> found(Map<String, Uuid> now) {
        Set<String> gone = new HashSet<>();
        topics.forEach(
                (topic, id) -> {
                    if (!id.equals(now.get(topic))) {
                        gone.add(topic);
                    }
                });
        byGroup.values().removeIf(it -> gone.contains(it.topic));
        complained.removeAll(gone);
        topics.clear();
        topics.putAll(now);
        return gone;
    }

    /**
     * Takes a message: a plan, or without a value the end of one. What is neither is ignored, with
     * one line in the log per topic until it carries a plan again.
     */
    void accept(ConsumerRecord<byte[], byte[]> message, long nowMillis) {
        String allowed = settings.topics().groupOf(message.topic());
        if (allowed == null) {
            return;
        }
        try {
            if (message.key() == null) {
                throw new Json.Malformed("no key");
            }
            String group = new String(message.key(), StandardCharsets.UTF_8);
            if (!allowed.isEmpty() && !allowed.equals(group)) {
                return;
            }
            if (message.value() == null) {
                byGroup.computeIfPresent(group, (it, read) -> without(read, message.topic()));
                return;
            }
            if (message.value().length > settings.maxBytes()) {
                throw new Json.Malformed("larger than lagless.plan.max.bytes");
            }
            Plan plan = PlanFormat.read(message.value());
            if (!plan.group().equals(group)) {
                throw new Json.Malformed("its key is not its group");
            }
            keep(message.topic(), plan, nowMillis);
            complained.remove(message.topic());
        } catch (Json.Malformed error) {
            if (complained.add(message.topic())) {
                String text = "ignoring a message on %s at offset %d: %s";
                log.warn(
                        message.topic(),
                        text.formatted(message.topic(), message.offset(), error.getMessage()));
            }
        }
    }

    /** Returns the plans by group. */
    Map<String, Plan> plans() {
        Map<String, Plan> plans = new HashMap<>();
        byGroup.forEach((group, read) -> plans.put(group, read.plan));
        return plans;
    }

    private void keep(String topic, Plan plan, long nowMillis) throws Json.Malformed {
        Read before = byGroup.get(plan.group());
        if (before != null
                && before.plan.generation() > plan.generation()
                && before.plan.isFresh(nowMillis, settings.maxAge())) {
            return;
        }
        int others = byGroup.values().stream().mapToInt(it -> it.plan.slots()).sum();
        others -= before == null ? 0 : before.plan.slots();
        if (others + plan.slots() > SLOTS || (before == null && byGroup.size() == GROUPS)) {
            throw new Json.Malformed("more plans than fit");
        }
        byGroup.put(plan.group(), new Read(topic, plan));
    }

    private static Read without(Read read, String topic) {
        return read.topic.equals(topic) ? null : read;
    }
}
