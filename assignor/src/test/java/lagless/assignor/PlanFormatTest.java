package lagless.assignor;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PlanFormatTest {
    private static final String HEAD =
            "{\"version\":1,\"message\":\"plan\",\"group\":\"g\",\"generation\":7,\"at\":1700000000.5,";
    private static final String GOOD =
            HEAD + "\"members\":{\"c-1\":{\"orders\":[0,2],\"other\":[]},\"c\\u002d2\":{\"orders\":[1]}}}";

    @Test
    void aPlanIsRead() throws Json.Malformed {
        Plan plan = read(GOOD);
        assertEquals("g", plan.group());
        assertEquals(7, plan.generation());
        assertEquals(1_700_000_000_500L, plan.atMillis());
        assertEquals(List.of("c-1", "c-2"), plan.members());
        assertArrayEquals(new int[] {0, 1, 0}, plan.topics().get("orders"));
    }

    @Test
    void unknownFieldsAndSpacesAreReadPast() throws Json.Malformed {
        String more = "\"x\": [null, true, false, -1.5e-3, {\"a\": [\"\\n\"]}], ";
        Plan plan = read(" " + GOOD.replace("\"members\"", more + "\n\"members\" ") + "\t");
        assertEquals(2, plan.members().size());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "[]",
                "{}",
                "null",
                "{\"version\":1}",
                HEAD + "\"members\":{}",
                HEAD + "\"members\":{}} x",
                HEAD + "\"members\":[]}",
                HEAD + "\"members\":{\"a\":{\"t\":[0]},\"a\":{}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[0]},\"b\":{\"t\":[0]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[0],\"t\":[1]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[-1]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[01]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[1.0]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[1,]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[2147483647]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":[99999999999999999999]}}}",
                HEAD + "\"members\":{\"a\":{\"t\":{}}}}",
                HEAD + "\"members\":{\"a\":null}}",
                HEAD + "\"version\":1,\"members\":{}}",
                "{\"version\":2,\"group\":\"g\",\"generation\":7,\"at\":1,\"members\":{}}",
                "{\"version\":1,\"group\":\"\",\"generation\":7,\"at\":1,\"members\":{}}",
                "{\"version\":1,\"group\":\"g\",\"generation\":-7,\"at\":1,\"members\":{}}",
                "{\"version\":1,\"group\":\"g\",\"generation\":7,\"at\":1e999,\"members\":{}}",
                "{\"version\":1,\"group\":\"g\",\"generation\":7,\"at\":-1,\"members\":{}}",
                "{\"version\":1,\"message\":\"order\",\"group\":\"g\",\"generation\":7,\"at\":1,\"members\":{}}",
                "{\"version\":1,\"group\":\"a\nb\",\"generation\":7,\"at\":1,\"members\":{}}",
                "{\"version\":1,\"group\":\"\\u12g4\",\"generation\":7,\"at\":1,\"members\":{}}",
            })
    void whatIsNotAPlanIsRefused(String text) {
        assertThrows(Json.Malformed.class, () -> read(text));
    }

    @Test
    void deepAndLargeTextsAreRefusedBeforeTheyCost() {
        assertThrows(Json.Malformed.class, () -> read("[".repeat(1_000_000)));
        assertThrows(Json.Malformed.class, () -> read("{\"a\":" .repeat(100_000)));
        assertThrows(Json.Malformed.class, () -> read("{\"x\":" + "[".repeat(1_000_000)));
        assertThrows(Json.Malformed.class, () -> read("{\"x\":\"" + "a".repeat(1_000_000) + "\"}"));
        assertThrows(Json.Malformed.class, () -> read("{\"x\":" + "9".repeat(1_000_000) + "}"));
        StringBuilder wide = new StringBuilder(HEAD + "\"members\":{\"a\":{");
        for (int topic = 0; topic < 20; topic++) {
            wide.append(topic == 0 ? "" : ",").append("\"t").append(topic).append("\":[199999]");
        }
        Json.Malformed error =
                assertThrows(Json.Malformed.class, () -> read(wide.append("}}}").toString()));
        assertTrue(error.getMessage().contains("too high"), error.getMessage());
    }

    @Test
    void manyMembersAreRefused() {
        StringBuilder text = new StringBuilder(HEAD + "\"members\":{\"m\":{}");
        for (int member = 0; member < PlanFormat.MEMBERS; member++) {
            text.append(",\"").append(member).append("\":{}");
        }
        assertThrows(Json.Malformed.class, () -> read(text.append("}}").toString()));
    }

    @Test
    void invalidUtf8IsRefused() {
        assertThrows(
                Json.Malformed.class, () -> PlanFormat.read(new byte[] {'{', (byte) 0xff, '}'}));
    }

    @Test
    void whateverIsChangedInAPlanIsReadOrRefused() {
        byte[] good = GOOD.getBytes(StandardCharsets.UTF_8);
        Seeds.forEach(
                20_000,
                random -> {
                    byte[] text = good.clone();
                    for (int i = random.nextInt(4); i >= 0; i--) {
                        text[random.nextInt(text.length)] =
                                random.nextBoolean()
                                        ? good[random.nextInt(good.length)]
                                        : (byte) random.nextInt(256);
                    }
                    try {
                        PlanFormat.read(text);
                    } catch (Json.Malformed refused) {
                        assertTrue(refused.getMessage().length() < 2_000);
                    }
                });
    }

    private static Plan read(String text) throws Json.Malformed {
        return PlanFormat.read(text.getBytes(StandardCharsets.UTF_8));
    }
}
