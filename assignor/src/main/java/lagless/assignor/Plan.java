package lagless.assignor;

import java.util.List;
import java.util.Map;

/**
 * Which consumer of a group should read which partition, as lagless planned it.
 *
 * @param atMillis when it was made, or last confirmed
 * @param members the planned consumers: a group.instance.id, a member id, or any name
 * @param numbers the place of each name in {@code members}
 * @param topics by topic name and partition, the place of the planned consumer, or -1
 */
record Plan(
        String group,
        long generation,
        long atMillis,
        List<String> members,
        Map<String, Integer> numbers,
        Map<String, int[]> topics) {

    /** How far the planner's clock may be ahead of this one's, whatever the age limit. */
    private static final long AHEAD_MILLIS = 60_000;

    /** Returns whether the plan is recent; one from the future is as wrong as an old one. */
    boolean isFresh(long nowMillis, long maxAgeMillis) {
        return atMillis >= nowMillis - maxAgeMillis
                && atMillis <= nowMillis + Math.max(maxAgeMillis, AHEAD_MILLIS);
    }

    /** Returns the memory that the plan takes, in partitions. */
    int slots() {
        return topics.values().stream().mapToInt(row -> row.length).sum();
    }
}
