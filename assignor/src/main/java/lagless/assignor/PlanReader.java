package lagless.assignor;

import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Uuid;

/**
 * Holds what is known about plans, kept current by a daemon thread of its own.
 *
 * <p>All assignors of a JVM with the same settings share one. The thread does not keep it alive: it
 * ends when the last assignor is gone, which matters to clients that come and go (Kafka does not
 * close assignors).
 */
final class PlanReader {
    private static final Map<Settings, WeakReference<PlanReader>> SHARED = new HashMap<>();

    final Settings settings;
    final RareLog log = new RareLog();
    private final CountDownLatch readOnce = new CountDownLatch(1);
    private final Map<String, String> joined = Plans.noneJoined();
    private volatile Plans plans = Plans.NONE;

    private PlanReader(Settings settings) {
        this.settings = settings;
    }

    /** Returns the reader of these settings, started when first asked for. */
    static PlanReader shared(Settings settings) {
        synchronized (SHARED) {
            SHARED.values().removeIf(it -> it.get() == null);
            WeakReference<PlanReader> known = SHARED.get(settings);
            PlanReader reader = known == null ? null : known.get();
            if (reader == null) {
                reader = new PlanReader(settings);
                reader.start();
                SHARED.put(settings, new WeakReference<>(reader));
            }
            return reader;
        }
    }

    /** Returns the newest plans; never blocks. */
    Plans plans() {
        return plans;
    }

    /** Waits until all that was written has been read once, or the time is up. */
    void awaitPlans(long millis) throws InterruptedException {
        readOnce.await(millis, TimeUnit.MILLISECONDS);
    }

    void publish(
            boolean ready,
            Map<String, Plan> byGroup,
            Map<Uuid, String> topics,
            Map<String, String> groupOfMember) {
        joined.keySet().removeAll(groupOfMember.keySet());
        plans = new Plans(ready, byGroup, topics, groupOfMember, joined);
        if (ready) {
            readOnce.countDown();
        }
    }

    private void start() {
        if (!settings.follows()) {
            log.warn(
                    "bootstrap",
                    "lagless.bootstrap.servers is not set: no plans are read, and partitions are"
                            + " spread evenly");
            plans = new Plans(true, Map.of(), Map.of(), Map.of(), joined);
            readOnce.countDown();
            return;
        }
        Thread thread = new Thread(new Follower(new WeakReference<>(this), settings, log), "lagless-plans");
        thread.setDaemon(true);
        // Kafka's clients find their classes through it; a caller's may be about to be unloaded.
        thread.setContextClassLoader(PlanReader.class.getClassLoader());
        thread.start();
    }
}
