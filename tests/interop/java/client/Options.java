import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** The command line: BOOTSTRAP STEPS name=value … */
final class Options {
    final String bootstrap;
    final List<String> steps;
    /** Whether the peer was told to leave its group. */
    volatile boolean stopped;

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
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", text("ca", ""));
            logIn(properties, text("mechanism", "SCRAM-SHA-256"));
        }
        if (has("certificate")) {
            properties.put("ssl.keystore.type", "PEM");
            properties.put("ssl.keystore.location", text("certificate", ""));
        }
        return properties;
    }

    private void logIn(Properties properties, String mechanism) {
        if (mechanism.equals("none")) {
            properties.put("security.protocol", "SSL");
            return;
        }
        properties.put("security.protocol", "SASL_SSL");
        properties.put("sasl.mechanism", mechanism);
        String modules = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            properties.put("sasl.login.callback.handler.class", TokenFromFile.class.getName());
            properties.put("sasl.jaas.config", modules + "oauthbearer.OAuthBearerLoginModule required file=\""
                + text("token", "") + "\";");
            return;
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        properties.put("sasl.jaas.config", modules + module + " required username=\"" + text("user", "")
            + "\" password=\"" + text("password", "") + "\";");
    }
}
