import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs the named steps in order with one kafka-clients version; every event is a JSON line. */
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

    public static void main(String[] args) {
        Options options = new Options(args);
        String current = "start";
        try (AdminSteps admin = new AdminSteps(options)) {
            for (String name : options.steps) {
                current = name;
                find(name, options, admin).run();
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            Events.emit("error", "step", current, "message", cause.toString());
            System.exit(1);
        }
        Events.emit("done");
        System.exit(0);
    }
}
