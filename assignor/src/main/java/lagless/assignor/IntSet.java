package lagless.assignor;

import java.util.AbstractSet;
import java.util.Arrays;
import java.util.Iterator;
import java.util.PrimitiveIterator;
import java.util.Set;

/** An immutable set of ascending numbers in an array: a group may have very many of these. */
final class IntSet extends AbstractSet<Integer> {
    private final int[] ascending;

    IntSet(int[] ascending) {
        this.ascending = ascending;
    }

    @Override
    public boolean contains(Object value) {
        return value instanceof Integer number && Arrays.binarySearch(ascending, number) >= 0;
    }

    @Override
    public Iterator<Integer> iterator() {
        PrimitiveIterator.OfInt numbers = Arrays.stream(ascending).iterator();
        return numbers;
    }

    @Override
    public int size() {
        return ascending.length;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof IntSet set
                ? Arrays.equals(ascending, set.ascending)
                : other instanceof Set<?> && super.equals(other);
    }

    @Override
    public int hashCode() {
        return Arrays.stream(ascending).sum(); // what Set demands
    }
}
