package lagless.assignor;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;

/**
 * Reads JSON strictly, in one pass and without building a tree, so that a hostile text costs no
 * more memory than its own length.
 *
 * <p>The broker's class path has a JSON library, but which one and which version is Kafka's
 * business. This is RFC 8259 with limits: nesting up to {@link #DEPTH}, strings up to {@link
 * #LENGTH} characters, no name twice in one object.
 */
final class Json {
    static final int DEPTH = 16;
    static final int LENGTH = 1_000;
    private static final int DIGITS = 40;

    /** Says what is wrong with a text, and where. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1L;

        Malformed(String reason) {
            super(reason);
        }
    }

    /** Reads one value; called with the value's name in an object. */
    interface Field {
        void read(String name) throws Malformed;
    }

    /** Reads one value of an array. */
    interface Element {
        void read() throws Malformed;
    }

    private final String text;
    private int at;
    private int depth;

    Json(byte[] utf8) throws Malformed {
        try {
            text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString();
        } catch (CharacterCodingException error) {
            throw new Malformed("not UTF-8");
        }
    }

    /** Reads an object; {@code field} must read or {@link #skip} each value. */
    void object(Field field) throws Malformed {
        Set<String> seen = new HashSet<>();
        open('{');
        for (boolean more = !closes('}'); more; more = continues('}')) {
            String name = string();
            if (!seen.add(name)) {
                throw wrong("the name \"" + name + "\" twice");
            }
            take(':');
            field.read(name);
        }
        depth--;
    }

    /** Reads an array; {@code element} must read or {@link #skip} each value. */
    void array(Element element) throws Malformed {
        open('[');
        for (boolean more = !closes(']'); more; more = continues(']')) {
            element.read();
        }
        depth--;
    }

    String string() throws Malformed {
        take('"');
        StringBuilder read = new StringBuilder();
        while (true) {
            char next = next();
            if (next == '"') {
                return read.toString();
            }
            if (next < ' ') {
                throw wrong("a control character in a string");
            }
            read.append(next == '\\' ? escaped() : next);
            if (read.length() > LENGTH) {
                throw wrong("a string of more than " + LENGTH + " characters");
            }
        }
    }

    /** Reads a number without fraction or exponent. */
    long integer() throws Malformed {
        String digits = number();
        try {
            return Long.parseLong(digits);
        } catch (NumberFormatException error) {
            throw wrong("not a whole number: " + digits);
        }
    }

    double decimal() throws Malformed {
        double value = Double.parseDouble(number());
        if (!Double.isFinite(value)) {
            throw wrong("a number too large");
        }
        return value;
    }

    /** Reads past a value of any kind. */
    void skip() throws Malformed {
        switch (peek()) {
            case '{' -> object(name -> skip());
            case '[' -> array(this::skip);
            case '"' -> string();
            case 't' -> word("true");
            case 'f' -> word("false");
            case 'n' -> word("null");
            default -> number();
        }
    }

    /** Requires that nothing follows. */
    void end() throws Malformed {
        space();
        if (at < text.length()) {
            throw wrong("more after the end");
        }
    }

    Malformed wrong(String what) {
        return new Malformed(what + " at character " + at);
    }

    private String number() throws Malformed {
        space();
        int start = at;
        at += found('-') ? 1 : 0;
        boolean zero = found('0');
        int whole = digits();
        if (zero && whole > 1) {
            throw wrong("a number that begins with 0");
        }
        if (found('.')) {
            at++;
            digits();
        }
        if (found('e') || found('E')) {
            at++;
            at += found('+') || found('-') ? 1 : 0;
            digits();
        }
        return text.substring(start, at);
    }

    private int digits() throws Malformed {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start || at - start > DIGITS) {
            throw wrong(at == start ? "no value that is known" : "a number too long");
        }
        return at - start;
    }

    private char escaped() throws Malformed {
        char next = next();
        return switch (next) {
            case '"', '\\', '/' -> next;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> {
                int code = 0;
                for (int i = 0; i < 4; i++) {
                    int digit = Character.digit(next(), 16);
                    if (digit < 0) {
                        throw wrong("not a \\u escape");
                    }
                    code = code * 16 + digit;
                }
                yield (char) code;
            }
            default -> throw wrong("an escape that is not known");
        };
    }

    private void open(char bracket) throws Malformed {
        take(bracket);
        if (++depth > DEPTH) {
            throw wrong("nested deeper than " + DEPTH);
        }
    }

    private boolean closes(char bracket) throws Malformed {
        boolean closed = peek() == bracket;
        at += closed ? 1 : 0;
        return closed;
    }

    private boolean continues(char bracket) throws Malformed {
        if (closes(bracket)) {
            return false;
        }
        take(',');
        return true;
    }

    private void word(String word) throws Malformed {
        if (!text.startsWith(word, at)) {
            throw wrong("no value that is known");
        }
        at += word.length();
    }

    private void take(char wanted) throws Malformed {
        if (peek() != wanted) {
            throw wrong("no " + wanted);
        }
        at++;
    }

    private char peek() throws Malformed {
        space();
        if (at >= text.length()) {
            throw wrong("the text ends");
        }
        return text.charAt(at);
    }

    private char next() throws Malformed {
        if (at >= text.length()) {
            throw wrong("the text ends");
        }
        return text.charAt(at++);
    }

    private boolean found(char wanted) {
        return at < text.length() && text.charAt(at) == wanted;
    }

    private void space() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }
}
