package lagless.assignor;

import static lagless.assignor.Group.NOBODY;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Gives each partition a member: the planned one, and evenly those that the plan does not name.
 *
 * <ol>
 *   <li>A partition that is planned for a member that is there and subscribed goes to it.
 *   <li>All others are "the rest". They are spread as Kafka's {@code uniform} assignor would if
 *       they were all there is: as even in number as the subscriptions allow, and with as few
 *       moves as that takes. With no plan everything is the rest.
 * </ol>
 *
 * Topics with the same subscribers are one "audience", levelled in one pass: as when pouring
 * water into vessels, members are filled up to a common level. With several audiences the passes
 * repeat until nothing moves: each one that moves something lowers the sum of squares.
 */
final class Placement {
    private static final int ROUNDS = 100;
    /** Matching by what is held sees what the last placement gave; this often at most. */
    private static final int MATCHINGS = 8;

    private final Group<?> group;
    private final int[][] planned;
    private final int[] owner;
    /** Per member, the number of partitions that the plan gave it. */
    private final int[] load;
    /** Per member, the number of partitions that it has of the rest. */
    private final int[] spread;

    private Placement(Group<?> group, int[][] planned, int[] memberOf, int[] holder, boolean level) {
        this.group = group;
        this.planned = planned;
        owner = new int[holder.length];
        load = new int[group.members.size()];
        spread = new int[group.members.size()];
        BitSet rest = followPlan(memberOf);
        for (int i = rest.nextSetBit(0); i >= 0; i = rest.nextSetBit(i + 1)) {
            owner[i] = holder[i];
            if (owner[i] != NOBODY) {
                spread[owner[i]]++;
            }
        }
        List<Audience> audiences = audiences(rest);
        boolean moved = true;
        for (int round = 0; moved && round < ROUNDS; round++) {
            moved = false;
            for (Audience audience : audiences) {
                moved |= audience.level(level);
            }
            moved &= audiences.size() > 1 && level;
        }
    }

    /**
     * Returns for each partition of the group's row the member that should have it, or NOBODY where
     * nobody is subscribed.
     *
     * @param planned per topic the planned consumer of each partition, null where there is no plan
     * @param level whether partitions of the rest may move to even out their number
     */
    static int[] place(Group<?> group, Plan plan, int[][] planned, boolean level) {
        int[] memberOf = Matching.match(group, plan, planned, group.holder);
        if (plan == null || !Matching.mayDrift(group, memberOf)) {
            return new Placement(group, planned, memberOf, group.holder, level).owner;
        }
        int[] owner = settled(group, plan, planned, memberOf, group.holder, level);
        if (owner != null) {
            return owner;
        }
        // It goes round in circles. So begin where what is held does not matter.
        int[] nobody = new int[group.holder.length];
        Arrays.fill(nobody, NOBODY);
        memberOf = Matching.match(group, plan, planned, nobody);
        int[] fixed = new Placement(group, planned, memberOf, group.holder, level).owner;
        memberOf = Matching.match(group, plan, planned, fixed);
        owner = settled(group, plan, planned, memberOf, fixed, level);
        return owner == null ? fixed : owner;
    }

    /**
     * Returns a placement that is its own answer, or null if none was found: what is given changes
     * who holds most of what, and so who is which consumer. {@code memberOf} is the matching for
     * {@code holder}, to begin with.
     */
    private static int[] settled(
            Group<?> group,
            Plan plan,
            int[][] planned,
            int[] memberOf,
            int[] holder,
            boolean level) {
        for (int i = 0; i < MATCHINGS; i++) {
            holder = new Placement(group, planned, memberOf, holder, level).owner;
            int[] again = Matching.match(group, plan, planned, holder);
            if (Arrays.equals(again, memberOf)) {
                return holder;
            }
            memberOf = again;
        }
        return null;
    }

    /** Carries out the plan and returns the places of the row that it leaves. */
    private BitSet followPlan(int[] memberOf) {
        BitSet rest = new BitSet(owner.length);
        rest.set(0, owner.length);
        group.eachPlanned(
                planned,
                (topic, place, consumer) -> {
                    int member = memberOf[consumer];
                    if (member != NOBODY && group.takes[member].get(topic)) {
                        owner[place] = member;
                        load[member]++;
                        rest.clear(place);
                    }
                });
        return rest;
    }

    private List<Audience> audiences(BitSet rest) {
        Map<BitSet, Audience> bySubscribers = new HashMap<>();
        for (int topic = 0; topic < group.topics.size(); topic++) {
            BitSet subscribers = new BitSet();
            for (int member = 0; member < group.takes.length; member++) {
                if ((group.alike && topic > 0) || group.takes[member].get(topic)) {
                    subscribers.set(member);
                }
            }
            Audience audience = bySubscribers.computeIfAbsent(subscribers, Audience::new);
            int end = group.first[topic + 1];
            for (int i = rest.nextSetBit(group.first[topic]); i >= 0 && i < end; ) {
                audience.add(i);
                i = rest.nextSetBit(i + 1);
            }
        }
        List<Audience> found = new ArrayList<>(bySubscribers.values());
        // Those with the least choice choose first; the order must not depend on the hash.
        found.sort(
                Comparator.<Audience>comparingInt(it -> it.members.length)
                        .thenComparing(it -> it.members, Arrays::compare));
        return found;
    }

    /** The rest of the topics that have the same subscribers. */
    private final class Audience {
        private final int[] members;
        private int[] places = new int[16];
        private int count;

        Audience(BitSet subscribers) {
            members = subscribers.stream().toArray();
        }

        void add(int place) {
            if (count == places.length) {
                places = Arrays.copyOf(places, 2 * count);
            }
            places[count++] = place;
        }

        /** Spreads what nobody has and, if {@code evenly}, what some have too much of. */
        boolean level(boolean evenly) {
            if (members.length == 0 || count == 0) {
                return false;
            }
            int[] own = new int[spread.length];
            int free = 0;
            for (int i = 0; i < count; i++) {
                if (owner[places[i]] == NOBODY) {
                    free++;
                } else if (evenly) {
                    own[owner[places[i]]]++;
                }
            }
            int[] target = targets(own, free);
            int[] pool = release(own, target, evenly, free);
            return fill(own, target, pool);
        }

        /** Returns how many partitions of this audience each member should have. */
        private int[] targets(int[] own, int free) {
            int amount = free;
            int[] base = new int[members.length];
            for (int i = 0; i < members.length; i++) {
                amount += own[members[i]];
                base[i] = spread[members[i]] - own[members[i]];
            }
            int water = waterLevel(base.clone(), amount);
            int[] target = new int[spread.length];
            List<Integer> open = new ArrayList<>();
            for (int i = 0; i < members.length; i++) {
                if (base[i] <= water) {
                    target[members[i]] = water - base[i];
                    amount -= water - base[i];
                    open.add(members[i]);
                }
            }
            // What is left over stays where it is, or goes where the plan put the least.
            open.sort(
                    Comparator.<Integer>comparingInt(it -> own[it] > target[it] ? 0 : 1)
                            .thenComparingInt(it -> load[it])
                            .thenComparingInt(it -> it));
            for (int i = 0; i < amount; i++) {
                target[open.get(i)]++;
            }
            return target;
        }

        /** Takes from members what is above their target, and returns it with what was free. */
        private int[] release(int[] own, int[] target, boolean evenly, int free) {
            int surplus = free;
            for (int member : members) {
                surplus += Math.max(0, own[member] - target[member]);
            }
            int[] pool = new int[surplus];
            int[] kept = new int[spread.length];
            for (int i = 0, next = 0; i < count && next < surplus; i++) {
                int member = owner[places[i]];
                if (member == NOBODY || (evenly && ++kept[member] > target[member])) {
                    pool[next++] = places[i];
                }
            }
            return pool;
        }

        /** Deals the pool out in turns, so that neighbours do not all land on one member. */
        private boolean fill(int[] own, int[] target, int[] pool) {
            for (int member : members) {
                spread[member] += target[member] - own[member];
            }
            int[] open = members.clone();
            int left = open.length;
            for (int next = 0; next < pool.length; ) {
                int still = 0;
                for (int i = 0; i < left; i++) {
                    int member = open[i];
                    if (own[member] < target[member]) {
                        own[member]++;
                        owner[pool[next++]] = member;
                        open[still++] = member;
                    }
                }
                left = still;
            }
            return pool.length > 0;
        }
    }

    /** Returns how high the water stands when this much is poured on vessels with these floors. */
    private static int waterLevel(int[] floors, int amount) {
        Arrays.sort(floors);
        int level = floors[0];
        int wet = 1;
        long left = amount;
        while (wet < floors.length && left >= (long) (floors[wet] - level) * wet) {
            left -= (long) (floors[wet] - level) * wet;
            level = floors[wet++];
        }
        return level + (int) (left / wet);
    }
}
