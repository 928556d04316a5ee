package lagless.assignor;

import java.util.Random;
import java.util.function.Consumer;

/** Runs a check on many random cases; -Dlagless.seed=N runs the same ones again. */
final class Seeds {
    private Seeds() {}

    static void forEach(int cases, Consumer<Random> check) {
        String given = System.getProperty("lagless.seed", "");
        long seed = given.isBlank() ? System.nanoTime() : Long.parseLong(given.trim());
        for (int i = 0; i < cases; i++) {
            try {
                check.accept(new Random(seed * 1_000_003 + i));
            } catch (Throwable error) {
                throw new AssertionError(
                        "case " + i + " of -Dlagless.seed=" + seed + ": " + error, error);
            }
        }
    }
}
