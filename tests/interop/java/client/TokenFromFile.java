import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** Logs in with the token in the file that the JAAS option "file" names. Kafka's own handlers need more libraries. */
public final class TokenFromFile implements AuthenticateCallbackHandler {
    private static final long HOUR_MS = 3_600_000;

    private record Token(String value, Long startTimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return startTimeMs + HOUR_MS;
        }

        @Override
        public String principalName() {
            return "the token's user";
        }
    }

    private Path file;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        file = Path.of((String) entries.get(0).getOptions().get("file"));
    }

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (Callback each : callbacks) {
            if (each instanceof OAuthBearerTokenCallback wanted) {
                wanted.token(new Token(Files.readString(file).strip(), System.currentTimeMillis()));
            } else if (!(each instanceof SaslExtensionsCallback)) {
                throw new UnsupportedCallbackException(each);
            }
        }
    }

    @Override
    public void close() {}
}
