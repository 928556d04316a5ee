package lagless.assignor;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.common.config.ConfigException;

/**
 * What is set with the prefix {@code lagless.}; README.md lists it.
 *
 * @param clients settings of the Kafka clients that follow the plans; without bootstrap.servers
 *     nothing is followed
 * @param topics which topics carry plans
 * @param maxAge milliseconds after which a plan counts no more
 * @param refresh milliseconds between looks at which topics, ids and members there are
 * @param patience milliseconds to reckon with plans that have not been read yet
 * @param maxBytes size of the largest message that is looked at
 */
record Settings(
        Map<String, Object> clients,
        Topics topics,
        long maxAge,
        long refresh,
        long patience,
        int maxBytes) {

    /**
     * The plan topics: those whose whole name matches. The first group of the expression, if it has
     * one, is the name of the only group whose plans a topic may carry.
     */
    static final class Topics {
        private final Pattern pattern;

        Topics(Pattern pattern) {
            this.pattern = pattern;
        }

        /** Returns the group of a topic: "" for any, null if it is no plan topic. */
        String groupOf(String topic) {
            Matcher found = pattern.matcher(topic);
            if (!found.matches()) {
                return null;
            }
            return found.groupCount() > 0 && found.group(1) != null ? found.group(1) : "";
        }

        // Pattern has no equality, and equal settings share a reader.
        @Override
        public boolean equals(Object other) {
            return other instanceof Topics it && it.pattern.pattern().equals(pattern.pattern());
        }

        @Override
        public int hashCode() {
            return pattern.pattern().hashCode();
        }
    }

    private static final String PREFIX = "lagless.";
    private static final String OWN = "plan.";
    private static final String BOOTSTRAP = "bootstrap.servers";
    private static final String PLAINTEXT = "PLAINTEXT";
    private static final List<String> CONNECTION =
            List.of("security.", "ssl.", "sasl.", "bootstrap.", "client.dns.", "socket.");

    /** Reads a broker's properties; a plaintext broker is followed itself by default. */
    static Settings ofBroker(Map<String, ?> properties) {
        Map<String, Object> clients = new HashMap<>();
        String own = ownAddress(properties);
        if (own != null) {
            clients.put(BOOTSTRAP, own);
        }
        return read(properties, clients, "(.+)\\.plan");
    }

    /** Reads a consumer's properties: it connects as the consumer itself does. */
    static Settings ofClient(Map<String, ?> properties, String group) {
        Map<String, Object> clients = new HashMap<>();
        properties.forEach(
                (key, value) -> {
                    if (value != null && CONNECTION.stream().anyMatch(key::startsWith)) {
                        clients.put(key, value);
                    }
                });
        return read(properties, clients, "(" + Pattern.quote(group) + ")\\.plan");
    }

    boolean follows() {
        return clients.containsKey(BOOTSTRAP);
    }

    private static Settings read(
            Map<String, ?> properties, Map<String, Object> clients, String topics) {
        Map<String, String> own = new HashMap<>();
        properties.forEach(
                (key, value) -> {
                    if (!key.startsWith(PREFIX) || value == null) {
                        return;
                    }
                    String name = key.substring(PREFIX.length());
                    if (name.startsWith(OWN)) {
                        own.put(name.substring(OWN.length()), value.toString().trim());
                    } else {
                        clients.put(name, value);
                    }
                });
        Settings settings =
                new Settings(
                        Map.copyOf(clients),
                        new Topics(pattern(own.getOrDefault("topic.pattern", topics))),
                        number(own, "max.age.ms", 15 * 60_000, Long.MAX_VALUE / 4),
                        number(own, "refresh.ms", 10_000, Integer.MAX_VALUE),
                        number(own, "wait.ms", 10_000, Integer.MAX_VALUE),
                        (int) number(own, "max.bytes", 8 << 20, 64 << 20));
        Set<String> known =
                Set.of("topic.pattern", "max.age.ms", "refresh.ms", "wait.ms", "max.bytes");
        for (String name : own.keySet()) {
            if (!known.contains(name)) {
                throw new ConfigException(PREFIX + OWN + name + " is not a setting of lagless");
            }
        }
        return settings;
    }

    private static Pattern pattern(String text) {
        try {
            return Pattern.compile(text);
        } catch (PatternSyntaxException error) {
            throw new ConfigException(PREFIX + OWN + "topic.pattern", text, error.getMessage());
        }
    }

    private static long number(Map<String, String> own, String name, long standard, long most) {
        String text = own.get(name);
        if (text == null) {
            return standard;
        }
        try {
            long value = Long.parseLong(text);
            if (value > 0 && value <= most) {
                return value;
            }
        } catch (NumberFormatException error) {
            // Refused below, like a number that does not fit.
        }
        throw new ConfigException(
                PREFIX + OWN + name, text, "must be a whole number from 1 to " + most);
    }

    /** Returns the broker's own address between brokers if that takes no credentials, or null. */
    private static String ownAddress(Map<String, ?> properties) {
        String name = text(properties, "inter.broker.listener.name");
        if (name.isEmpty()) {
            name = text(properties, "security.inter.broker.protocol");
        }
        if (name.isEmpty()) {
            name = PLAINTEXT;
        }
        String protocols = text(properties, "listener.security.protocol.map");
        boolean plain = name.equals(PLAINTEXT) && !protocols.contains(PLAINTEXT + ":");
        if (!plain && !List.of(protocols.split("\\s*,\\s*")).contains(name + ":" + PLAINTEXT)) {
            return null;
        }
        for (String key : List.of("advertised.listeners", "listeners")) {
            for (String listener : text(properties, key).split("\\s*,\\s*")) {
                if (listener.startsWith(name + "://")) {
                    String address = listener.substring(name.length() + 3);
                    return address.startsWith(":") ? "localhost" + address : address;
                }
            }
        }
        return null;
    }

    private static String text(Map<String, ?> properties, String key) {
        Object value = properties.get(key);
        return value == null ? "" : value.toString().trim();
    }
}
