package lagless.assignor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Reads a plan from its message, with limits on everything that it could make large.
 *
 * <p>README.md describes the format. Unknown fields are ignored, so that a newer lagless can speak
 * to an older assignor; everything else that does not fit refuses the whole message, since half a
 * plan is worse than the one before.
 */
final class PlanFormat {
    static final int MEMBERS = 10_000;
    static final int TOPICS = 10_000;
    /** Partitions are numbered from 0, so this is also the memory that one topic may ask for. */
    static final int PARTITION = 200_000;
    static final int SLOTS = 1_000_000;
    private static final int VERSION = 1;
    private static final double LATEST_SECONDS = 1e11;

    private final Json json;
    private long version = -1;
    private String message = "plan";
    private String group;
    private long generation = -1;
    private double at = Double.NaN;
    private final List<String> members = new ArrayList<>();
    private final Map<String, Integer> numbers = new HashMap<>();
    private final Map<String, int[]> topics = new HashMap<>();
    private boolean hasMembers;
    private int slots;

    private PlanFormat(byte[] utf8) throws Json.Malformed {
        json = new Json(utf8);
    }

    /** Returns the plan that a message is; refuses all others with the reason. */
    static Plan read(byte[] utf8) throws Json.Malformed {
        PlanFormat format = new PlanFormat(utf8);
        format.json.object(format::field);
        format.json.end();
        return format.plan();
    }

    private void field(String name) throws Json.Malformed {
        switch (name) {
            case "version" -> version = json.integer();
            case "message" -> message = json.string();
            case "group" -> group = json.string();
            case "generation" -> generation = json.integer();
            case "at" -> at = json.decimal();
            case "members" -> {
                hasMembers = true;
                json.object(this::member);
            }
            default -> json.skip();
        }
    }

    private void member(String name) throws Json.Malformed {
        int number = members.size();
        if (number == MEMBERS) {
            throw json.wrong("more than " + MEMBERS + " members");
        }
        members.add(name);
        numbers.put(name, number);
        json.object(topic -> json.array(() -> partition(topic, number)));
    }

    private void partition(String topic, int member) throws Json.Malformed {
        long read = json.integer();
        if (read < 0 || read >= PARTITION) {
            throw json.wrong("partition " + read + " of " + topic);
        }
        int partition = (int) read;
        int[] row = topics.get(topic);
        if (row == null && topics.size() == TOPICS) {
            throw json.wrong("more than " + TOPICS + " topics");
        }
        int before = row == null ? 0 : row.length;
        if (partition >= before) {
            int length = Math.min(PARTITION, Math.max(partition + 1, before + before / 2));
            slots += length - before;
            if (slots > SLOTS) {
                throw json.wrong("partition numbers too high for a plan of this size");
            }
            row = row == null ? new int[length] : Arrays.copyOf(row, length);
            Arrays.fill(row, before, length, -1);
            topics.put(topic, row);
        }
        if (row[partition] >= 0) {
            throw json.wrong("partition " + partition + " of " + topic + " twice");
        }
        row[partition] = member;
    }

    private Plan plan() throws Json.Malformed {
        Set<String> missing = new HashSet<>();
        if (group == null || group.isEmpty()) {
            missing.add("group");
        }
        if (generation < 0) {
            missing.add("generation");
        }
        if (!(at >= 0 && at < LATEST_SECONDS)) {
            missing.add("at");
        }
        if (!hasMembers) {
            missing.add("members");
        }
        if (version != VERSION || !message.equals("plan")) {
            throw new Json.Malformed("not a plan of version " + VERSION);
        }
        if (!missing.isEmpty()) {
            throw new Json.Malformed("missing or wrong: " + String.join(", ", missing));
        }
        long atMillis = (long) (at * 1000);
        return new Plan(
                group,
                generation,
                atMillis,
                List.copyOf(members),
                Map.copyOf(numbers),
                Map.copyOf(topics));
    }
}
