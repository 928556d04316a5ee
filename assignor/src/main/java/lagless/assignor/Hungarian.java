package lagless.assignor;

import java.util.Arrays;

/**
 * Solves the assignment problem exactly: rows to columns at the least total cost.
 *
 * <p>Kuhn's method with potentials: each row is added by a cheapest augmenting path, O(n³) in all.
 */
final class Hungarian {
    private Hungarian() {}

    /** Returns the column of each row of a square matrix. */
    static int[] solve(int[][] cost) {
        int size = cost.length;
        // Row and column 0 stand for "none"; the real ones are numbered from 1.
        long[] rowPrice = new long[size + 1];
        long[] columnPrice = new long[size + 1];
        int[] rowOf = new int[size + 1];
        int[] before = new int[size + 1];
        for (int row = 1; row <= size; row++) {
            rowOf[0] = row;
            int column = 0;
            long[] least = new long[size + 1];
            Arrays.fill(least, Long.MAX_VALUE);
            boolean[] done = new boolean[size + 1];
            while (rowOf[column] != 0) {
                done[column] = true;
                int from = rowOf[column];
                int nearest = 0;
                for (int to = 1; to <= size; to++) {
                    if (done[to]) {
                        continue;
                    }
                    long reduced = cost[from - 1][to - 1] - rowPrice[from] - columnPrice[to];
                    if (reduced < least[to]) {
                        least[to] = reduced;
                        before[to] = column;
                    }
                    if (nearest == 0 || least[to] < least[nearest]) {
                        nearest = to;
                    }
                }
                long step = least[nearest];
                for (int to = 0; to <= size; to++) {
                    if (done[to]) {
                        rowPrice[rowOf[to]] += step;
                        columnPrice[to] -= step;
                    } else {
                        least[to] -= step;
                    }
                }
                column = nearest;
            }
            while (column != 0) {
                rowOf[column] = rowOf[before[column]];
                column = before[column];
            }
        }
        int[] columnOf = new int[size];
        for (int column = 1; column <= size; column++) {
            columnOf[rowOf[column] - 1] = column - 1;
        }
        return columnOf;
    }
}
