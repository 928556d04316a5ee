package lagless.assignor;

import static lagless.assignor.Group.NOBODY;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Decides which member is which consumer of the plan.
 *
 * <ol>
 *   <li>By name: a member with a group.instance.id is the consumer of that name or none, one
 *       without is the consumer named by its member id.
 *   <li>By what they hold: the other members without an instance id become the other consumers, so
 *       that they keep as many partitions as possible. Pairs that are in a best answer for sure are
 *       taken first, which nearly always leaves nothing; a remainder of up to {@link #EXACT} is
 *       solved exactly, and a larger one by taking the largest numbers first.
 *   <li>Those that hold nothing of a plan take the largest consumers that are left.
 * </ol>
 */
final class Matching {
    /** The exact solution takes the third power of this many steps: some two milliseconds. */
    private static final int EXACT = 100;

    /** How many partitions a member would keep as this consumer. */
    private record Keep(int member, int consumer, int count) {}

    private final Group<?> group;
    private final int[] memberOf;
    private final boolean[] taken;

    private Matching(Group<?> group, int consumers) {
        this.group = group;
        memberOf = new int[consumers];
        Arrays.fill(memberOf, NOBODY);
        taken = new boolean[group.members.size()];
    }

    /** Returns the member of each planned consumer, or NOBODY. */
    static int[] match(Group<?> group, Plan plan, int[][] planned, int[] holder) {
        Matching matching = new Matching(group, plan == null ? 0 : plan.members().size());
        if (plan != null && matching.byName(plan)) {
            matching.byHolding(planned, holder);
            matching.bySize(plan, planned);
        }
        return matching.memberOf;
    }

    /** Returns whether a placement may change the matching that it was made with. */
    static boolean mayDrift(Group<?> group, int[] memberOf) {
        boolean unnamed = group.members.stream().anyMatch(it -> it.instance() == null);
        return unnamed && (!group.alike || Arrays.stream(memberOf).anyMatch(it -> it == NOBODY));
    }

    /** Returns whether members are left that may be matched otherwise. */
    private boolean byName(Plan plan) {
        boolean left = false;
        for (int member = 0; member < taken.length; member++) {
            Group.Member<?> known = group.members.get(member);
            boolean named = known.instance() != null;
            Integer consumer = plan.numbers().get(named ? known.instance() : known.id());
            if (consumer != null && memberOf[consumer] == NOBODY) {
                pair(member, consumer);
            }
            left |= !taken[member] && !named;
        }
        return left;
    }

    private void byHolding(int[][] planned, int[] holder) {
        List<Keep> keeps = counted(planned, holder);
        keeps = takeSure(keeps);
        if (keeps.isEmpty()) {
            return;
        }
        int[] members = keeps.stream().mapToInt(Keep::member).distinct().sorted().toArray();
        int[] consumers = keeps.stream().mapToInt(Keep::consumer).distinct().sorted().toArray();
        if (Math.max(members.length, consumers.length) > EXACT) {
            keeps.sort(Comparator.comparingInt(Keep::count).reversed());
            keeps.forEach(keep -> pairIfFree(keep.member, keep.consumer));
            return;
        }
        int size = Math.max(members.length, consumers.length);
        int[][] cost = new int[size][size];
        for (Keep keep : keeps) {
            int row = Arrays.binarySearch(members, keep.member);
            cost[row][Arrays.binarySearch(consumers, keep.consumer)] = -keep.count;
        }
        int[] column = Hungarian.solve(cost);
        for (int row = 0; row < members.length; row++) {
            if (cost[row][column[row]] < 0) {
                pair(members[row], consumers[column[row]]);
            }
        }
    }

    private List<Keep> counted(int[][] planned, int[] holder) {
        long[] found = new long[holder.length];
        int[] count = {0};
        group.eachPlanned(
                planned,
                (topic, place, consumer) -> {
                    int member = holder[place];
                    if (memberOf[consumer] == NOBODY && member != NOBODY && mayMatch(member)) {
                        found[count[0]++] = (long) member << 32 | consumer;
                    }
                });
        Arrays.sort(found, 0, count[0]);
        List<Keep> keeps = new ArrayList<>();
        for (int i = 0, next; i < count[0]; i = next) {
            for (next = i + 1; next < count[0] && found[next] == found[i]; ) {
                next++;
            }
            keeps.add(new Keep((int) (found[i] >> 32), (int) found[i], next - i));
        }
        return keeps;
    }

    /**
     * Takes the pairs that some best answer contains, and returns what is left to choose from.
     *
     * <p>A pair that keeps at least as much as its member's and its consumer's next best pairs
     * together is one of them: whoever has paired both otherwise does not lose by exchanging.
     */
    private List<Keep> takeSure(List<Keep> keeps) {
        List<Keep> left = keeps;
        boolean found = true;
        while (found && !left.isEmpty()) {
            Best[] members = new Best[taken.length];
            Best[] consumers = new Best[memberOf.length];
            for (Keep keep : left) {
                Best.note(members, keep.member, keep.count);
                Best.note(consumers, keep.consumer, keep.count);
            }
            found = false;
            for (Keep keep : left) {
                int elsewhere =
                        members[keep.member].besides(keep.count)
                                + consumers[keep.consumer].besides(keep.count);
                found |= keep.count >= elsewhere && pairIfFree(keep.member, keep.consumer);
            }
            left = new ArrayList<>(left);
            left.removeIf(keep -> taken[keep.member] || memberOf[keep.consumer] != NOBODY);
        }
        return left;
    }

    private void bySize(Plan plan, int[][] planned) {
        int[] size = new int[memberOf.length];
        group.eachPlanned(planned, (topic, place, consumer) -> size[consumer]++);
        List<Integer> consumers = new ArrayList<>();
        for (int consumer = 0; consumer < memberOf.length; consumer++) {
            if (memberOf[consumer] == NOBODY) {
                consumers.add(consumer);
            }
        }
        consumers.sort(
                Comparator.<Integer>comparingInt(it -> -size[it])
                        .thenComparing(it -> plan.members().get(it)));
        int next = 0;
        for (int member = 0; member < taken.length && next < consumers.size(); member++) {
            if (mayMatch(member)) {
                pair(member, consumers.get(next++));
            }
        }
    }

    private boolean mayMatch(int member) {
        return !taken[member] && group.members.get(member).instance() == null;
    }

    private boolean pairIfFree(int member, int consumer) {
        boolean free = !taken[member] && memberOf[consumer] == NOBODY;
        if (free) {
            pair(member, consumer);
        }
        return free;
    }

    private void pair(int member, int consumer) {
        memberOf[consumer] = member;
        taken[member] = true;
    }

    /** The two largest numbers that were noted. */
    private static final class Best {
        private int first;
        private int second;

        static void note(Best[] all, int place, int count) {
            if (all[place] == null) {
                all[place] = new Best();
            }
            Best best = all[place];
            best.second = Math.max(best.second, Math.min(best.first, count));
            best.first = Math.max(best.first, count);
        }

        /** Returns the largest number besides one that is this. */
        int besides(int count) {
            return count == first ? second : first;
        }
    }
}
