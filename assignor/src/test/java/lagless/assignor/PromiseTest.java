package lagless.assignor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** What one rebalance says to the next. */
class PromiseTest {
    @Test
    void whatWasWrittenIsRead() {
        Seeds.forEach(
                1_000,
                random -> {
                    List<TopicPartition> all = new ArrayList<>();
                    for (int i = random.nextInt(20); i > 0; i--) {
                        all.add(new TopicPartition("tä-" + random.nextInt(5), random.nextInt(99)));
                    }
                    assertEquals(all, Promise.read(Promise.write(all)));
                });
        assertNull(Promise.write(List.of()));
    }

    @Test
    void bytesOfOthersArePassedOver() {
        ByteBuffer written = Promise.write(List.of(new TopicPartition("topic", 7)));
        Seeds.forEach(
                10_000,
                random -> {
                    byte[] bytes = Arrays.copyOf(written.array(), random.nextInt(30));
                    for (int i = random.nextInt(4); i > 0 && bytes.length > 0; i--) {
                        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
                    }
                    assertTrue(Promise.read(ByteBuffer.wrap(bytes)).size() <= 3);
                });
        assertEquals(List.of(), Promise.read(null));
    }
}
