package lagless.assignor;

import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The thread that follows the plan topics. Whatever fails, it says so once in a while, waits, and
 * connects again; what was published before stands until then, and ages.
 */
final class Follower implements Runnable {
    private static final Duration POLL = Duration.ofMillis(500);
    private static final long PATIENCE_MILLIS = 15_000;
    private static final int GROUP_PATIENCE_MILLIS = 5_000;
    private static final long SHORT_PAUSE_MILLIS = 500;
    private static final long LONG_PAUSE_MILLIS = 30_000;

    private final WeakReference<PlanReader> reader;
    private final Settings settings;
    private final RareLog log;
    private final PlanTopics plans;
    private Admin admin;
    private KafkaConsumer<byte[], byte[]> consumer;
    /** Where the plan topics ended at the first look; null before it, empty once that was read. */
    private Map<TopicPartition, Long> unread;
    /** Topics and groups of plans that the cluster was asked about at the last look. */
    private Set<String> askedTopics = Set.of();
    private Set<String> askedGroups = Set.of();
    private Map<Uuid, String> topics = Map.of();
    private Map<String, String> groupOfMember = Map.of();

    Follower(WeakReference<PlanReader> reader, Settings settings, RareLog log) {
        this.reader = reader;
        this.settings = settings;
        this.log = log;
        plans = new PlanTopics(settings, log);
    }

    @Override
    public void run() {
        long pause = SHORT_PAUSE_MILLIS;
        while (reader.get() != null) {
            long began = System.nanoTime();
            try (Admin opened = Admin.create(properties());
                    KafkaConsumer<byte[], byte[]> open = consumer()) {
                admin = opened;
                consumer = open;
                follow();
            } catch (Throwable error) {
                log.warn("reader", "cannot read plans at present: " + error, error);
                boolean lasted = millisSince(began) > LONG_PAUSE_MILLIS;
                pause = lasted ? SHORT_PAUSE_MILLIS : Math.min(2 * pause, LONG_PAUSE_MILLIS);
                sleep(pause);
            }
        }
    }

    private void follow() throws Exception {
        long looked = System.nanoTime();
        for (boolean first = true; reader.get() != null; first = false) {
            boolean changed = first || millisSince(looked) >= settings.refresh();
            if (changed) {
                looked = System.nanoTime();
                findPlanTopics();
                askAbout(plans.plans());
            }
            changed |= read();
            Map<String, Plan> byGroup = plans.plans();
            if (!askedTopics.containsAll(topicsOf(byGroup))
                    || !askedGroups.containsAll(byGroup.keySet())) {
                askAbout(byGroup);
            }
            PlanReader target = reader.get();
            if (target != null && (changed || target.plans().ready != unread.isEmpty())) {
                target.publish(unread.isEmpty(), byGroup, topics, groupOfMember);
            }
        }
    }

    /** Reads on for a moment, and returns whether there was anything. */
    private boolean read() {
        if (consumer.assignment().isEmpty()) {
            sleep(Math.min(SHORT_PAUSE_MILLIS, settings.refresh()));
            unread.clear();
            return false;
        }
        boolean found = false;
        for (ConsumerRecord<byte[], byte[]> message : consumer.poll(POLL)) {
            plans.accept(message, System.currentTimeMillis());
            found = true;
        }
        Set<TopicPartition> assigned = consumer.assignment();
        unread.entrySet()
                .removeIf(
                        end ->
                                !assigned.contains(end.getKey())
                                        || consumer.position(end.getKey()) >= end.getValue());
        return found;
    }

    private void findPlanTopics() throws Exception {
        Set<String> names =
                admin.listTopics().names().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS).stream()
                        .filter(name -> settings.topics().groupOf(name) != null)
                        .sorted()
                        .limit(PlanTopics.TOPICS)
                        .collect(Collectors.toSet());
        Map<String, Uuid> ids = new HashMap<>();
        Set<TopicPartition> partitions = new HashSet<>();
        for (TopicDescription topic : described(names)) {
            ids.put(topic.name(), topic.topicId());
            topic.partitions()
                    .forEach(it -> partitions.add(new TopicPartition(topic.name(), it.partition())));
        }
        Set<String> gone = plans.found(ids);
        Set<TopicPartition> before = Set.copyOf(consumer.assignment());
        consumer.assign(partitions);
        // A topic that was made again begins at its beginning, however far its namesake had come.
        List<TopicPartition> begun =
                partitions.stream()
                        .filter(it -> gone.contains(it.topic()) || !before.contains(it))
                        .toList();
        if (!begun.isEmpty()) {
            consumer.seekToBeginning(begun);
        }
        if (unread == null) {
            unread = new HashMap<>(consumer.endOffsets(partitions));
        }
    }

    /** Asks for the ids of the topics and the members of the groups that plans name. */
    private void askAbout(Map<String, Plan> byGroup) throws Exception {
        askedTopics = topicsOf(byGroup);
        askedGroups = Set.copyOf(byGroup.keySet());
        Map<Uuid, String> ids = new HashMap<>();
        described(askedTopics).forEach(topic -> ids.put(topic.topicId(), topic.name()));
        topics = Map.copyOf(ids);
        groupOfMember = membersOf(askedGroups);
    }

    private Map<String, String> membersOf(Set<String> groups) throws Exception {
        var options = new DescribeConsumerGroupsOptions().timeoutMs(GROUP_PATIENCE_MILLIS);
        var asked = admin.describeConsumerGroups(groups, options).describedGroups();
        Map<String, String> members = new HashMap<>();
        for (String group : groups) {
            try {
                asked.get(group).get().members().forEach(it -> members.put(it.consumerId(), group));
            } catch (ExecutionException error) {
                if (error.getCause() instanceof GroupIdNotFoundException) {
                    continue;
                }
                // Its coordinator may be about to move: who was a member still is, for all we know.
                for (Map.Entry<String, String> known : groupOfMember.entrySet()) {
                    if (known.getValue().equals(group)) {
                        members.put(known.getKey(), group);
                    }
                }
                log.warn("group " + group, "cannot see the members of " + group + ": " + error);
            }
        }
        return Map.copyOf(members);
    }

    /** Returns the topics, without those that do not exist or may not be seen. */
    private List<TopicDescription> described(Set<String> names) throws Exception {
        List<TopicDescription> answers = new ArrayList<>();
        for (var each : admin.describeTopics(names).topicNameValues().entrySet()) {
            try {
                answers.add(each.getValue().get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS));
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                if (cause instanceof AuthorizationException) {
                    log.warn("rights", "no right to see " + each.getKey() + ": " + cause);
                } else if (!(cause instanceof UnknownTopicOrPartitionException
                        || cause instanceof InvalidTopicException)) {
                    throw error;
                }
            }
        }
        return answers;
    }

    private static Set<String> topicsOf(Map<String, Plan> byGroup) {
        return byGroup.values().stream()
                .flatMap(plan -> plan.topics().keySet().stream())
                .collect(Collectors.toUnmodifiableSet());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> all = properties();
        all.put("enable.auto.commit", "false");
        all.put("auto.offset.reset", "earliest");
        all.put("allow.auto.create.topics", "false");
        // A plan may be part of a transaction with what it belongs to.
        all.put("isolation.level", "read_committed");
        // What is not processed yet waits in memory: keep it small.
        all.putIfAbsent("fetch.max.bytes", "8388608");
        all.putIfAbsent("max.partition.fetch.bytes", "4194304");
        all.putIfAbsent("max.poll.records", "50");
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Map<String, Object> properties() {
        Map<String, Object> all = new HashMap<>(settings.clients());
        all.remove("group.id");
        all.putIfAbsent("client.id", "lagless-assignor");
        all.putIfAbsent("enable.metrics.push", "false");
        all.putIfAbsent("default.api.timeout.ms", Long.toString(PATIENCE_MILLIS));
        all.putIfAbsent("request.timeout.ms", "10000");
        return all;
    }

    private static long millisSince(long nanos) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            // Nobody interrupts this thread; if somebody does, go on at once.
        }
    }
}
