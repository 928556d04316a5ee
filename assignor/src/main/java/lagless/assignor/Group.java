package lagless.assignor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.ToIntFunction;

/**
 * A group as numbers: members and topics by place, and the partitions of all topics in one row.
 *
 * @param <T> what names a topic: its id in a broker, its name in a client
 */
final class Group<T> {
    static final int NOBODY = -1;

    /** A member and the topics that it is subscribed to. {@code instance} is null if it has none. */
    record Member<T>(String id, String instance, Collection<T> topics) {}

    final List<Member<T>> members;
    final List<T> topics = new ArrayList<>();
    /** Per topic the place of its partition 0 in the row; one more entry is the row's length. */
    final int[] first;
    /** Per member the topics that it takes; members with the same topics share one set. */
    final BitSet[] takes;
    /** Whether all members take the same topics. */
    final boolean alike;
    /** Per partition the member that has it now and still takes its topic, or NOBODY. */
    final int[] holder;
    private final Map<T, Integer> places = new HashMap<>();

    /**
     * @param alike whether all members are known to have the same topics
     * @param partitions the number of partitions of a topic, below 1 if it does not exist
     */
    Group(List<Member<T>> members, boolean alike, ToIntFunction<T> partitions) {
        this.members = members;
        takes = new BitSet[members.size()];
        List<Integer> lengths = new ArrayList<>();
        Map<BitSet, BitSet> shared = new HashMap<>();
        for (int member = 0; member < takes.length; member++) {
            if (alike && member > 0) {
                takes[member] = takes[0];
                continue;
            }
            BitSet own = new BitSet();
            for (T topic : members.get(member).topics()) {
                Integer place = places.get(topic);
                if (place == null) {
                    place = topics.size();
                    places.put(topic, place);
                    topics.add(topic);
                    lengths.add(Math.max(0, partitions.applyAsInt(topic)));
                }
                own.set(place);
            }
            BitSet known = shared.putIfAbsent(own, own);
            takes[member] = known == null ? own : known;
        }
        this.alike = alike || shared.size() < 2;
        first = new int[topics.size() + 1];
        for (int topic = 0; topic < topics.size(); topic++) {
            first[topic + 1] = Math.addExact(first[topic], lengths.get(topic));
        }
        holder = new int[first[topics.size()]];
        Arrays.fill(holder, NOBODY);
    }

    /** Notes that a member has a partition; what it may not have any more is passed over. */
    void hold(int member, T topic, int partition) {
        int place = placeFor(member, topic, partition);
        if (place >= 0) {
            holder[place] = member;
        }
    }

    /** Returns the partition's place in the row, or NOBODY if the member may not have it. */
    int placeFor(int member, T topic, int partition) {
        Integer number = places.get(topic);
        if (number == null || !takes[member].get(number)) {
            return NOBODY;
        }
        int place = first[number] + partition;
        return partition >= 0 && place < first[number + 1] ? place : NOBODY;
    }

    /** Returns per topic which planned consumer each partition has; null where there is no plan. */
    int[][] planned(Plan plan, Function<T, String> name) {
        int[][] planned = new int[topics.size()][];
        for (int topic = 0; topic < planned.length && plan != null; topic++) {
            String known = name.apply(topics.get(topic));
            planned[topic] = known == null ? null : plan.topics().get(known);
        }
        return planned;
    }

    /** Calls {@code found} for each partition of the row that is planned. */
    void eachPlanned(int[][] planned, PlannedPartition found) {
        for (int topic = 0; topic < planned.length; topic++) {
            if (planned[topic] == null) {
                continue;
            }
            int length = Math.min(planned[topic].length, first[topic + 1] - first[topic]);
            for (int partition = 0; partition < length; partition++) {
                if (planned[topic][partition] >= 0) {
                    found.at(topic, first[topic] + partition, planned[topic][partition]);
                }
            }
        }
    }

    /** Is told a topic's number, a place in the row, and the number of the planned consumer. */
    interface PlannedPartition {
        void at(int topic, int place, int consumer);
    }
}
