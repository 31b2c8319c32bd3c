import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** The command line: BOOTSTRAP STEPS name=value … */
final class Options {
    final String bootstrap;
    final List<String> steps;
    private final Map<String, String> values = new HashMap<>();

    Options(String[] args) {
        bootstrap = args[0];
        steps = List.of(args[1].split(","));
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            values.put(pair[0], pair[1]);
        }
    }

    String text(String name, String fallback) {
        return values.getOrDefault(name, fallback);
    }

    int number(String name, int fallback) {
        return Integer.parseInt(text(name, Integer.toString(fallback)));
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    String topic() {
        return text("topic", "events");
    }

    String group() {
        return text("group", "readers");
    }

    Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", text("client", "java-peer"));
        properties.put("request.timeout.ms", "10000");
        properties.put("default.api.timeout.ms", "20000");
        if (has("ca")) {
            properties.put("security.protocol", "SASL_SSL");
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", text("ca", ""));
            properties.put("sasl.mechanism", "SCRAM-SHA-256");
            properties.put("sasl.jaas.config",
                "org.apache.kafka.common.security.scram.ScramLoginModule required username=\""
                    + text("user", "") + "\" password=\"" + text("password", "") + "\";");
        }
        return properties;
    }
}
