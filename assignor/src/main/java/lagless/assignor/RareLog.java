package lagless.assignor;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Logs the same matter once in ten minutes: what goes wrong here goes wrong at every turn. */
final class RareLog {
    private static final Logger LOG = LoggerFactory.getLogger("lagless.assignor");
    private static final long PAUSE_NANOS = TimeUnit.MINUTES.toNanos(10);
    private static final int MATTERS = 2_000;

    private final Map<String, Long> last = new ConcurrentHashMap<>();

    void info(String text) {
        LOG.info(text);
    }

    /** Warns, unless the same matter was warned of a short time ago. */
    void warn(String matter, String text, Throwable cause) {
        long now = System.nanoTime();
        if (last.size() >= MATTERS) {
            last.clear();
        }
        Long before = last.get(matter);
        if (before == null || now - before > PAUSE_NANOS) {
            last.put(matter, now);
            LOG.warn(text, cause);
        }
    }

    void warn(String matter, String text) {
        warn(matter, text, null);
    }
}
