"""The security settings of a client, declared once: consumers, producers and admin clients share them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ssl import SSLContext
from typing import Protocol, TypedDict

from kohort.client.errors import SettingError
from kohort.security.secret import Secret

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
SECRETS = (
    "ssl_keydata",
    "ssl_password",
    "sasl_plain_password",
    "sasl_oauth_token",
    "sasl_oauth_client_secret",
)
_TOKEN_SOURCES = ("sasl_oauth_token_provider", "sasl_oauth_token", "sasl_oauth_token_endpoint")


class TokenProvider(Protocol):
    """Gives a token for each log-in. ``token`` may be a coroutine; a method ``extensions`` is optional."""

    def token(self) -> object: ...


class SecurityOptions(TypedDict, total=False):
    """The settings of :class:`SecuritySettings` as keyword arguments, for type checkers and editors."""

    security_protocol: str
    ssl_context: SSLContext | None
    ssl_cafile: str | None
    ssl_cadata: str | None
    ssl_certfile: str | None
    ssl_certdata: str | None
    ssl_keyfile: str | None
    ssl_keydata: str | Secret | None
    ssl_password: str | Secret | None
    ssl_check_hostname: bool
    ssl_crlfile: str | None
    ssl_ciphers: str | None
    ssl_min_version: str
    ssl_max_version: str
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | Secret | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_oauth_token: str | Secret | None
    sasl_oauth_token_endpoint: str | None
    sasl_oauth_client_id: str | None
    sasl_oauth_client_secret: str | Secret | None
    sasl_oauth_scope: str | None
    sasl_oauth_header_urlencode: bool
    sasl_oauth_extensions: Mapping[str, str] | None


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """The names of kafka-python and aiokafka; see ``docs/howto/secured-cluster.md`` for those of others."""

    security_protocol: str = "PLAINTEXT"
    ssl_context: SSLContext | None = None  # instead of all other ssl_ settings
    ssl_cafile: str | None = None  # a file or directory; None: what the system trusts
    ssl_cadata: str | None = None
    ssl_certfile: str | None = None
    ssl_certdata: str | None = None
    ssl_keyfile: str | None = None  # None: the key is in ssl_certfile
    ssl_keydata: str | Secret | None = None
    ssl_password: str | Secret | None = None
    ssl_check_hostname: bool = True
    ssl_crlfile: str | None = None
    ssl_ciphers: str | None = None
    ssl_min_version: str = "TLSv1.2"
    ssl_max_version: str = "TLSv1.3"
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | Secret | None = None
    sasl_oauth_token_provider: TokenProvider | None = None
    sasl_oauth_token: str | Secret | None = None
    sasl_oauth_token_endpoint: str | None = None
    sasl_oauth_client_id: str | None = None
    sasl_oauth_client_secret: str | Secret | None = None
    sasl_oauth_scope: str | None = None
    sasl_oauth_header_urlencode: bool = False  # of the client's id and secret
    sasl_oauth_extensions: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self.check_security()

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    def security_arguments(self) -> SecurityOptions:
        """What is not as it is by default, for another client of the same cluster."""
        given = ((each.name, each.default, getattr(self, each.name)) for each in fields(SecuritySettings))
        return {name: value for name, default, value in given if value != default}  # type: ignore[return-value]

    def secret(self, name: str) -> Secret | None:
        value = getattr(self, name)
        assert value is None or isinstance(value, Secret)
        return value

    def check_security(self) -> None:
        """Hide the secrets and refuse what makes no sense together; raises SettingError."""
        self._hide_secrets()
        self._check_texts()
        protocol = str(self.security_protocol).upper()
        object.__setattr__(self, "security_protocol", protocol)
        if protocol not in PROTOCOLS:
            raise SettingError(
                f"security_protocol cannot be {protocol!r}", hint=f"it is one of {', '.join(PROTOCOLS)}"
            )
        if self.uses_tls:
            self._check_tls()
        else:
            self._refuse_without("ssl_", "SSL or SASL_SSL")
        if self.uses_sasl:
            self._check_sasl()
        else:
            self._refuse_without("sasl_", "SASL_SSL or SASL_PLAINTEXT")

    def _hide_secrets(self) -> None:
        for name in SECRETS:
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, Secret(value))
            elif value is not None and not isinstance(value, Secret):
                raise SettingError(
                    f"{name} cannot be of type {type(value).__name__}", hint="it is text or a Secret"
                )

    def _check_texts(self) -> None:
        for each in fields(SecuritySettings):
            value = getattr(self, each.name)
            if each.type == str | None and value is not None and not isinstance(value, str):
                raise SettingError(f"{each.name} cannot be {value!r}", hint="it is text or None")

    def _refuse_without(self, prefix: str, protocols: str) -> None:
        """A setting without effect is a mistake here: something would go out in the clear."""
        for each in fields(SecuritySettings):
            if each.name.startswith(prefix) and getattr(self, each.name) != each.default:
                raise SettingError(
                    f"{each.name} has no effect with security_protocol={self.security_protocol}",
                    hint=f"set security_protocol to {protocols}",
                )

    def _check_tls(self) -> None:
        for name in ("ssl_min_version", "ssl_max_version"):
            _check_one_of(name, getattr(self, name), TLS_VERSIONS)
        if self.ssl_min_version > self.ssl_max_version:
            raise SettingError("ssl_min_version is higher than ssl_max_version")
        if self.ssl_context is not None:
            for each in fields(SecuritySettings):
                is_other = each.name.startswith("ssl_") and each.name != "ssl_context"
                if is_other and getattr(self, each.name) != each.default:
                    raise SettingError(f"{each.name} and ssl_context are both set", hint="set up the context")
        self._exclusive("ssl_cafile", "ssl_cadata")
        self._exclusive("ssl_certfile", "ssl_certdata")
        self._exclusive("ssl_keyfile", "ssl_keydata")
        has_certificate = self.ssl_certfile is not None or self.ssl_certdata is not None
        if (self.ssl_keyfile is not None or self.ssl_keydata is not None) and not has_certificate:
            raise SettingError(
                "there is a key without a certificate", hint="set ssl_certfile or ssl_certdata"
            )

    def _check_sasl(self) -> None:
        if self.sasl_mechanism is None:
            raise SettingError(
                f"security_protocol={self.security_protocol} needs sasl_mechanism",
                hint=f"it is one of {', '.join(MECHANISMS)}",
            )
        mechanism = self.sasl_mechanism.upper()
        if mechanism in ("GSSAPI", "KERBEROS"):
            raise SettingError("sasl_mechanism GSSAPI (Kerberos) is not supported",
                               hint=f"it is one of {', '.join(MECHANISMS)}")  # fmt: skip
        _check_one_of("sasl_mechanism", mechanism, MECHANISMS)
        object.__setattr__(self, "sasl_mechanism", mechanism)
        if mechanism == OAUTHBEARER:
            self._check_token_source()
        elif not self.sasl_plain_username or self.sasl_plain_password is None:
            raise SettingError(f"{mechanism} needs sasl_plain_username and sasl_plain_password")

    def _check_token_source(self) -> None:
        given = [name for name in _TOKEN_SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            what = "more than one of them is" if given else "none of them is"
            raise SettingError(f"exactly one of {', '.join(_TOKEN_SOURCES)} gives the token: {what} set")
        if self.sasl_oauth_token_endpoint is None:
            return
        if not self.sasl_oauth_client_id or self.sasl_oauth_client_secret is None:
            raise SettingError(
                "sasl_oauth_token_endpoint needs sasl_oauth_client_id and sasl_oauth_client_secret"
            )

    def _exclusive(self, one: str, other: str) -> None:
        if getattr(self, one) is not None and getattr(self, other) is not None:
            raise SettingError(f"{one} and {other} are both set", hint="choose one of them")


def _check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{name} cannot be {value!r}", hint=f"it is one of {', '.join(allowed)}")
