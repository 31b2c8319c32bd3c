import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after another in a single JVM: each would cost a second to start.
 *
 * <p>Reads a line {"main": class, "args": [...], "stdin": text}, answers with a line {"exit": code, "stdout": text,
 * "stderr": text}, and ends with its input.
 */
public final class ToolShell {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Thrown instead of ending the JVM. */
    private static final class ExitCalled extends Error {
        private static final long serialVersionUID = 1L;

        ExitCalled() {
            super(null, null, false, false);
        }
    }

    /** Tools may keep the stream they saw first, so the stream stays and its target changes. */
    private static final class Switchable extends OutputStream {
        private volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int value) throws java.io.IOException {
            target.write(value);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws java.io.IOException {
            target.write(bytes, from, count);
        }
    }

    private static final Switchable OUT = new Switchable();
    private static final Switchable ERR = new Switchable();
    /** What a tool wants done when its JVM ends: the console producer sends what it still has. */
    private static final List<Runnable> HOOKS = new ArrayList<>();

    private static volatile Integer exitCode;

    private ToolShell() {}

    private static void exit(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
            if (message != null) {
                System.err.println(message);
            }
        }
        throw new ExitCalled();
    }

    private static boolean causedByExit(Throwable thrown) {
        for (Throwable each = thrown; each != null; each = each.getCause()) {
            if (each instanceof ExitCalled) {
                return true;
            }
        }
        return false;
    }

    private static void call(String main, String[] args) throws ReflectiveOperationException {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException error) {
            if (!causedByExit(error)) {
                error.getCause().printStackTrace();
                exitCode = 1;
            }
        }
    }

    private static ObjectNode answer(JsonNode request) throws ReflectiveOperationException {
        String[] args = new String[request.get("args").size()];
        for (int i = 0; i < args.length; i++) {
            args[i] = request.get("args").get(i).asText();
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        exitCode = null;
        OUT.target = out;
        ERR.target = err;
        System.setIn(new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        HOOKS.clear();
        call(request.get("main").asText(), args);
        List.copyOf(HOOKS).forEach(Runnable::run);
        System.out.flush();
        System.err.flush();
        ObjectNode reply = JSON.createObjectNode();
        reply.put("exit", exitCode == null ? 0 : exitCode);
        reply.put("stdout", out.toString(StandardCharsets.UTF_8));
        reply.put("stderr", err.toString(StandardCharsets.UTF_8));
        return reply;
    }

    public static void main(String[] ignored) throws Exception {
        InputStream commands = System.in;
        PrintStream replies = System.out;
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolShell::exit);
        Exit.setHaltProcedure(ToolShell::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(commands, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            replies.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            replies.flush();
        }
    }
}
