import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * A Java consumer: what tests/assignor/member.py is in Python.
 *
 * <p>Arguments are its properties as KEY=VALUE, then its topics without "="; each line that it
 * reads changes its subscription, and it leaves the group when it reads the character 4.
 */
public final class JavaMember {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        List<String> topics = new ArrayList<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts.length == 2) {
                properties.put(parts[0], parts[1]);
            } else {
                topics.add(argument);
            }
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        properties.put("key.deserializer", bytes);
        properties.put("value.deserializer", bytes);
        StringBuilder line = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(topics);
            String told = null;
            while (true) {
                while (System.in.available() > 0) {
                    int read = System.in.read();
                    if (read == '\n') {
                        consumer.subscribe(List.of(line.toString().trim().split(" ")));
                        line.setLength(0);
                    } else if (read == 4) {
                        return;
                    } else {
                        line.append((char) read);
                    }
                }
                consumer.poll(Duration.ofMillis(200));
                Map<String, TreeSet<Integer>> held = new TreeMap<>();
                for (TopicPartition each : consumer.assignment()) {
                    String topic = '"' + each.topic() + '"';
                    held.computeIfAbsent(topic, it -> new TreeSet<>()).add(each.partition());
                }
                String now = held.toString().replace("=", ": ");
                if (!now.equals(told)) {
                    System.out.println(now);
                    told = now;
                }
            }
        }
    }
}
