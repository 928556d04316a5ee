package lagless.assignor;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.TopicPartition;

/**
 * The partitions that a member will be given once their owners have let go, as bytes: a version,
 * then each topic's length, name and partition.
 */
final class Promise {
    private static final byte VERSION = 1;

    private Promise() {}

    /** Returns the bytes, or null if nothing is promised. */
    static ByteBuffer write(List<TopicPartition> partitions) {
        if (partitions.isEmpty()) {
            return null;
        }
        List<byte[]> names = new ArrayList<>();
        int size = 1;
        for (TopicPartition it : partitions) {
            byte[] name = it.topic().getBytes(StandardCharsets.UTF_8);
            names.add(name);
            size += 2 * Integer.BYTES + name.length;
        }
        ByteBuffer buffer = ByteBuffer.allocate(size).put(VERSION);
        for (int i = 0; i < names.size(); i++) {
            buffer.putInt(names.get(i).length).put(names.get(i));
            buffer.putInt(partitions.get(i).partition());
        }
        return buffer.flip();
    }

    /** Returns what was promised; nothing if the bytes are somebody else's. */
    static List<TopicPartition> read(ByteBuffer bytes) {
        List<TopicPartition> found = new ArrayList<>();
        if (bytes == null || !bytes.hasRemaining()) {
            return found;
        }
        ByteBuffer buffer = bytes.duplicate();
        try {
            if (buffer.get() != VERSION) {
                return List.of();
            }
            while (buffer.hasRemaining()) {
                int length = buffer.getInt();
                if (length < 0 || length > buffer.remaining()) {
                    return List.of();
                }
                byte[] name = new byte[length];
                buffer.get(name);
                String topic = new String(name, StandardCharsets.UTF_8);
                found.add(new TopicPartition(topic, buffer.getInt()));
            }
        } catch (BufferUnderflowException error) {
            return List.of();
        }
        return found;
    }
}
