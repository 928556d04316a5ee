package lagless.assignor;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.Uuid;

/**
 * Everything that is known about plans at one moment; never changed once made.
 *
 * <p>Kafka tells an assignor in the broker neither the group's name nor the topics' names. Topics
 * are looked up by id in {@code topics}. The group is found by its members:
 *
 * <ol>
 *   <li>By member ids, which are unique. Those of the groups that have a plan are asked of the
 *       cluster at every refresh, and once a group is known, so is who joined it since.
 *   <li>Before the first refresh after its start (or for members of whom none is known), by
 *       group.instance.id: the group whose plan names most of these, if there is one such group,
 *       its plan has a topic in common with them, and it is not known to have other members.
 * </ol>
 *
 * Topics alone never decide: a group that reads the same topics without a plan must not be given
 * another group's.
 */
final class Plans {
    static final Plans NONE = new Plans(false, Map.of(), Map.of(), Map.of(), Map.of());
    private static final int JOINED = 100_000;
    /** A name in the plans of more groups than this tells nothing. */
    private static final int AMBIGUOUS = 10;

    /** Whether all that was written before the reader's start has been read. */
    final boolean ready;

    final Map<String, Plan> byGroup;
    /** The names of the topics that plans name, by id. */
    final Map<Uuid, String> topics;
    /** Each member's group, as the cluster said. */
    final Map<String, String> groupOfMember;

    private final Map<String, String> joined;
    private final Set<String> populated;
    private final Map<String, Set<String>> groupsByName = new HashMap<>();

    /** @param joined each later member's group: shared by all plans of a reader, and added to */
    Plans(
            boolean ready,
            Map<String, Plan> byGroup,
            Map<Uuid, String> topics,
            Map<String, String> groupOfMember,
            Map<String, String> joined) {
        this.ready = ready;
        this.byGroup = byGroup;
        this.topics = topics;
        this.groupOfMember = groupOfMember;
        this.joined = joined;
        populated = new HashSet<>(groupOfMember.values());
        for (Plan plan : byGroup.values()) {
            for (String name : plan.members()) {
                groupsByName.computeIfAbsent(name, it -> new HashSet<>()).add(plan.group());
            }
        }
    }

    /** Returns a map to note later members in. */
    static Map<String, String> noneJoined() {
        return new ConcurrentHashMap<>();
    }

    /** Returns which group with a plan these members are, or null. */
    String groupOf(List<Group.Member<Uuid>> members) {
        if (byGroup.isEmpty()) {
            return null;
        }
        Map<String, Integer> votes = new HashMap<>();
        for (Group.Member<Uuid> member : members) {
            String group = groupOfMember.getOrDefault(member.id(), joined.get(member.id()));
            if (group != null) {
                votes.merge(group, 1, Integer::sum);
            }
        }
        String known = most(votes);
        if (known == null) {
            return byInstance(members);
        }
        if (joined.size() > JOINED) {
            joined.clear();
        }
        members.forEach(member -> joined.putIfAbsent(member.id(), known));
        return known;
    }

    private String byInstance(List<Group.Member<Uuid>> members) {
        Set<String> subscribed = new HashSet<>();
        Collection<Uuid> last = null;
        Map<String, Integer> votes = new HashMap<>();
        for (Group.Member<Uuid> member : members) {
            Set<String> groups = groupsByName.getOrDefault(name(member), Set.of());
            for (String group : groups.size() > AMBIGUOUS ? Set.<String>of() : groups) {
                votes.merge(group, 1, Integer::sum);
            }
            if (!groups.isEmpty() && member.topics() != last) {
                last = member.topics();
                last.forEach(topic -> subscribed.add(topics.get(topic)));
            }
        }
        votes.keySet().removeIf(
                group ->
                        populated.contains(group)
                                || byGroup.get(group).topics().keySet().stream()
                                        .noneMatch(subscribed::contains));
        return most(votes);
    }

    private static String name(Group.Member<Uuid> member) {
        return member.instance() != null ? member.instance() : member.id();
    }

    private static String most(Map<String, Integer> votes) {
        String best = null;
        int count = 0;
        boolean tie = false;
        for (Map.Entry<String, Integer> vote : votes.entrySet()) {
            tie = vote.getValue() == count || (tie && vote.getValue() < count);
            if (vote.getValue() > count) {
                best = vote.getKey();
                count = vote.getValue();
            }
        }
        return tie ? null : best;
    }
}
