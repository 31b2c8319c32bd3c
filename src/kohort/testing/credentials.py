"""What a secured test broker lets its clients in with: certificates and tokens of authorities of its own."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from weakref import finalize

from kohort.client.security.settings import SecurityOptions
from kohort.security.certs import DevAuthority

_ISSUER = "kohort-testing"
_TOKEN_S = 3_600


class TestCredentials:
    """Users with passwords, certificates and tokens. The files last as long as this object."""

    __test__ = False  # pytest would collect it

    def __init__(self, users: Mapping[str, str]) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        self.users = users
        self._directory = Path(mkdtemp(prefix="kohort-testing-"))  # for this user only
        finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self._authority = DevAuthority(datetime.now(UTC))
        self._token_key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._authority.certificate
        self.ca_file = self._written("ca.pem", self.certificate)
        public = json.loads(ECAlgorithm.to_jwk(self._token_key.public_key()))
        self._keys = self._written("keys.json", json.dumps({"keys": [public | {"kid": _ISSUER}]}))

    def _written(self, name: str, text: str) -> Path:
        path = self._directory / name
        path.write_text(text)
        return path

    def broker_settings(self) -> dict[str, str]:
        """SASL_SSL with every mechanism, and SSL with client certificates whose common name is the user."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._written("broker.pem", self._authority.issue("kohort-broker"))),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "ssl.client.auth": "required",  # of the listener SSL
            "ssl.principal.mapping.rules": "RULE:CN=(.*)/$1/",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": _ISSUER,
        }

    def certificate_of(self, user: str) -> Path:
        """A file with the user's key and certificate."""
        return self._written(f"{user}.pem", self._authority.issue(user))

    def token_of(self, user: str, now_s: int) -> str:
        import jwt

        claims = {"iss": _ISSUER, "sub": user, "iat": now_s, "exp": now_s + _TOKEN_S}
        return jwt.encode(claims, self._token_key, "ES256", headers={"kid": _ISSUER})

    def log_in(self, user: str, mechanism: str, now_s: int) -> SecurityOptions:
        options: SecurityOptions = {
            "security_protocol": "SASL_SSL",
            "ssl_cadata": self.certificate,
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return options | {"sasl_oauth_token": self.token_of(user, now_s)}
        return options | {"sasl_plain_username": user, "sasl_plain_password": self.users[user]}
