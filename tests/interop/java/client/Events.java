import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** One JSON object per line on standard output: what the test on the other side reads. */
final class Events {
    /** What stands before each line of a thread: which peer it is, if there are several. */
    private static final InheritableThreadLocal<String> SPEAKER = new InheritableThreadLocal<>() {
        @Override
        protected String initialValue() {
            return "";
        }
    };

    private Events() {}

    static void speakAs(String number) {
        SPEAKER.set(number + " ");
    }

    /** Says that this peer will say no more. */
    static void end() {
        print(SPEAKER.get().trim());
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Prints an event; {@code fields} alternates names and values. */
    static void emit(String event, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        for (int i = 0; i < fields.length; i += 2) {
            line.put((String) fields[i], fields[i + 1]);
        }
        StringBuilder text = new StringBuilder(SPEAKER.get());
        write(line, text);
        print(text.toString());
    }

    private static void write(Object value, StringBuilder out) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                write(entry.getKey().toString(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> items) {
            String separator = "[";
            for (Object item : items) {
                out.append(separator);
                write(item, out);
                separator = ",";
            }
            out.append(items.isEmpty() ? "[]" : "]");
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
