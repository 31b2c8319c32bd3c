import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs the named steps in order with one kafka-clients version; every event is a JSON line.
 *
 * <p>Without arguments it runs any number of peers at the same time, since each JVM would cost two seconds to start.
 * A line of its input is NUMBER, a tab, and a word for the peer of that number, or the arguments of a new one with
 * tabs between them; its events come as NUMBER, a space and the event, and at last NUMBER alone.
 */
public final class Peer {
    private Peer() {}

    private interface Step {
        void run() throws Exception;
    }

    private static Step find(String name, Options options, AdminSteps admin) {
        return switch (name) {
            case "connect" -> admin::connect;
            case "create" -> admin::create;
            case "list" -> admin::list;
            case "describe" -> admin::describe;
            case "configs" -> admin::configs;
            case "grow" -> admin::grow;
            case "offsets" -> admin::offsets;
            case "truncate" -> admin::truncate;
            case "groups" -> admin::groups;
            case "committed" -> admin::committed;
            case "forget" -> admin::forget;
            case "delete" -> admin::delete;
            case "produce" -> () -> DataSteps.produce(options);
            case "spread" -> () -> DataSteps.spread(options);
            case "fetch" -> () -> DataSteps.fetch(options);
            case "group" -> () -> GroupSteps.group(options);
            case "warm" -> () -> warm(options);
            default -> throw new IllegalArgumentException("no step " + name);
        };
    }

    /** Loads what any later run will need, without a broker: what is loaded now goes into a class archive. */
    private static void warm(Options options) {
        new KafkaProducer<>(options.properties(), new StringSerializer(), new StringSerializer()).close(Duration.ZERO);
        var properties = DataSteps.consumerProperties(options);
        properties.put("group.id", options.group());
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(options.topic()));
            consumer.poll(Duration.ofMillis(200));
        }
    }

    private static boolean run(Options options) {
        String current = "start";
        try (AdminSteps admin = new AdminSteps(options)) {
            for (String name : options.steps) {
                current = name;
                find(name, options, admin).run();
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            Events.emit("error", "step", current, "message", cause.toString());
            return false;
        }
        Events.emit("done");
        return true;
    }

    private static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    private static void hear(String word, Options options) {
        if ("die".equals(word)) {
            Runtime.getRuntime().halt(0);
        }
        options.stopped = true;
    }

    private static void runAlone(Options options) {
        Thread listener = new Thread(() -> {
            try {
                hear(input().readLine(), options);
            } catch (IOException error) {
                Events.emit("error", "message", error.toString());
            }
        });
        listener.setDaemon(true);
        listener.start();
        System.exit(run(options) ? 0 : 1);
    }

    private static void runMany() throws IOException {
        Map<String, Options> peers = new HashMap<>();
        BufferedReader lines = input();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t");
            String number = parts[0];
            if (peers.containsKey(number)) {
                hear(parts[1], peers.get(number));
                continue;
            }
            Options options = new Options(Arrays.copyOfRange(parts, 1, parts.length));
            peers.put(number, options);
            new Thread(() -> {
                Events.speakAs(number);
                try {
                    run(options);
                } finally {
                    Events.end();
                }
            }, "peer-" + number).start();
        }
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] args) throws IOException {
        if (args.length == 0) {
            runMany();
        } else {
            runAlone(new Options(args));
        }
    }
}
