"""One setting, three spellings: kafka-python's, librdkafka's and Java's names for the same thing.

Dots and underscores are the same. What has no counterpart is refused with what to do instead; what only
Java needs is taken without effect.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, NamedTuple

from kohort.client.errors import SettingError
from kohort.client.security.sasl import UnsecuredToken
from kohort.client.security.settings import OAUTHBEARER, PLAIN, SCRAM, SECRETS, TLS_VERSIONS, SecuritySettings
from kohort.security.jaas import JaasEntry, JaasError, parse_jaas
from kohort.security.secret import Secret

_TO_PEM = "convert it to PEM, for example: openssl pkcs12 -in store.p12 -out store.pem -nodes"
_FIELDS = {each.name: each.type for each in fields(SecuritySettings)}
_READ = (*SECRETS, "ssl_cadata", "ssl_certdata")  # may be @file or env:NAME in text

OTHER_NAMES = {
    "ssl_cafile": ("ssl.ca.location", "ssl.truststore.location"),
    "ssl_cadata": ("ssl.ca.pem", "ssl.truststore.certificates"),
    "ssl_certfile": ("ssl.certificate.location", "ssl.keystore.location"),
    "ssl_certdata": ("ssl.certificate.pem", "ssl.keystore.certificate.chain"),
    "ssl_keyfile": ("ssl.key.location",),
    "ssl_keydata": ("ssl.key.pem", "ssl.keystore.key"),
    "ssl_password": ("ssl.key.password",),
    "ssl_crlfile": ("ssl.crl.location",),
    "ssl_ciphers": ("ssl.cipher.suites",),
    "ssl_check_hostname": ("ssl.endpoint.identification.algorithm",),
    "sasl_mechanism": ("sasl.mechanisms",),
    "sasl_plain_username": ("sasl.username",),
    "sasl_plain_password": ("sasl.password",),
    "sasl_oauth_token_endpoint": ("sasl.oauthbearer.token.endpoint.url",),
    "sasl_oauth_client_id": (
        "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id",
    ),
    "sasl_oauth_client_secret": (
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret",
    ),
    "sasl_oauth_scope": ("sasl.oauthbearer.scope",),
    "sasl_oauth_header_urlencode": ("sasl.oauthbearer.header.urlencode",),
    "sasl_oauth_extensions": ("sasl.oauthbearer.extensions",),
}  # fmt: skip
"""Names of librdkafka and Java for a setting; the documentation and the parser read this table."""

EXPANDED = ("sasl.jaas.config", "ssl.enabled.protocols")
"""Names that stand for several settings."""

WITHOUT_EFFECT = frozenset(
    {
        "ssl.protocol", "ssl.provider", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation", "security.providers", "sasl.oauthbearer.method",
        "sasl.oauthbearer.config", "sasl.login.class",
        "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms",
        "sasl.login.retry.backoff.max.ms", "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
        "sasl.oauthbearer.jwt.retriever.class",
    }
)  # fmt: skip

_REFUSED = {
    "ssl.keystore.password": f"a PEM file has no password of its own (its key: ssl.key.password); {_TO_PEM}",
    "ssl.truststore.password": f"a PEM file has no password; {_TO_PEM}",
    "ssl.engine.factory.class": "it is Java code; pass ssl_context in a Python program",
    "ssl.engine.location": "OpenSSL's engines are not used",
}
_HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_KAFKAS_HANDLER = re.compile(r"(.*\.)?OAuthBearer\w*LoginCallbackHandler|(.*\.)?\w*Sasl\w*CallbackHandler")


def _plain(name: str) -> str:
    return name.lower().replace(".", "_").replace("-", "_")


_CANONICAL = {name: name for name in _FIELDS} | {
    _plain(other): field for field, others in OTHER_NAMES.items() for other in others
}
_IGNORED = {_plain(name) for name in WITHOUT_EFFECT}
_SWITCHES = ("enable_ssl_certificate_verification", "enable_sasl_oauthbearer_unsecure_jwt")


def is_security_name(name: str) -> bool:
    """Whether a setting is about security, in any spelling."""
    plain = _plain(name)
    return plain.startswith(("security_", "ssl_", "sasl_")) or plain in _SWITCHES


def is_secret_name(name: str) -> bool:
    """Whether the value of a setting must not be shown, in any spelling."""
    plain = _plain(name)
    return plain == "sasl_jaas_config" or _CANONICAL.get(plain) in SECRETS


class _Value(NamedTuple):
    name: str  # as it was given
    value: Any


class _ConvertedSettings:
    """The settings by our names, each with the name it was given by."""

    def __init__(self, is_text: bool) -> None:
        self.values: dict[str, _Value] = {}
        self.is_text = is_text

    def put(self, field: str, name: str, value: object) -> None:
        if self.is_text and isinstance(value, str) and field in _READ:
            secret = Secret.parse(value)
            value = secret if field in SECRETS else secret.reveal()
        elif self.is_text and isinstance(value, str) and _FIELDS[field] is bool:
            value = _truth(name, value)
        before = self.values.get(field)
        if before is not None and before.value != value:
            raise SettingError(
                f"{before.name} and {name} are two names of one setting, with different values"
            )
        self.values[field] = _Value(name, value)


def security_arguments(given: Mapping[str, object], *, is_text: bool) -> dict[str, Any]:
    """Keyword arguments of ``SecuritySettings`` from settings in any spelling; raises SettingError.

    With ``is_text`` values come from a file, a command or an option: secrets may be ``@PATH``, ``env:NAME``
    or ``${env:NAME}``.
    """
    found = _ConvertedSettings(is_text)
    plain = {_plain(name): _Value(name, value) for name, value in given.items()}
    _check_store_types(plain)
    jaas: _Value | None = None
    for name, (spelled, value) in plain.items():
        if name == "sasl_jaas_config":
            jaas = _Value(spelled, value)
        elif name in _CONVERTED:
            _CONVERTED[name](found, spelled, value)
        elif name in _CANONICAL:
            found.put(_CANONICAL[name], spelled, value)
        elif name not in _IGNORED:
            raise _unknown(name, spelled)
    if jaas is not None:
        _take_jaas(found, jaas)
    return {field: value for field, (_, value) in found.values.items()}


def _unknown(name: str, spelled: str) -> SettingError:
    for refused, hint in _REFUSED.items():
        if _plain(refused) == name:
            return SettingError(f"{spelled} is not supported", hint=hint)
    close = get_close_matches(name, [*_CANONICAL, *map(_plain, EXPANDED)], n=1)
    hint = f"did you mean {close[0]}?" if close else "see docs/howto/secured-cluster.md"
    return SettingError(f"there is no setting {spelled!r}", hint=hint)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingError(f"{name} cannot be {text!r}", hint="it is true or false")
    return text.lower() == "true"


def _check_store_types(plain: Mapping[str, _Value]) -> None:
    """Java's stores are JKS unless a setting says otherwise, and we read PEM only."""
    for store in ("truststore", "keystore"):
        kind = str(plain.get(f"ssl_{store}_type", _Value("", "JKS")).value)
        is_needed = f"ssl_{store}_location" in plain or f"ssl_{store}_type" in plain
        if is_needed and kind.upper() != "PEM":
            raise SettingError(
                f"ssl.{store}.type {kind} is not supported",
                hint=f"set ssl.{store}.type=PEM if the file is PEM, else {_TO_PEM}",
            )


def _take_host_check(found: _ConvertedSettings, name: str, value: object) -> None:
    text = str(value).lower()
    if text not in ("https", "none", ""):
        raise SettingError(f"{name} cannot be {value!r}", hint="write https, or none to skip the check")
    found.put("ssl_check_hostname", name, text == "https")


def _take_ca_location(found: _ConvertedSettings, name: str, value: object) -> None:
    if value != "probe":  # librdkafka's word for what the system trusts
        found.put("ssl_cafile", name, value)


def _take_protocols(found: _ConvertedSettings, name: str, value: object) -> None:
    versions = sorted({each.strip() for each in str(value).split(",") if each.strip()})
    odd = [each for each in versions if each not in TLS_VERSIONS]
    if odd or not versions:
        raise SettingError(f"{name} cannot be {value!r}", hint=f"it is a list of {', '.join(TLS_VERSIONS)}")
    found.put("ssl_min_version", name, versions[0])
    found.put("ssl_max_version", name, versions[-1])


def _take_extensions(found: _ConvertedSettings, name: str, value: object) -> None:
    if not isinstance(value, str):
        found.put("sasl_oauth_extensions", name, value)
        return
    pairs = [each.partition("=") for each in value.split(",") if each.strip()]
    if any(not equals for _, equals, _ in pairs):
        raise SettingError(f"{name} is not NAME=VALUE, separated by commas")
    found.put("sasl_oauth_extensions", name, {key.strip(): text.strip() for key, _, text in pairs})


def _take_verification(_found: _ConvertedSettings, name: str, value: object) -> None:
    if str(value).lower() != "true":
        raise SettingError(
            f"{name}={value} is not supported: anybody could pose as the broker",
            hint="trust the broker's authority with ssl_cafile; a Python program can pass ssl_context",
        )


def _take_handler(_found: _ConvertedSettings, name: str, value: object) -> None:
    if not _KAFKAS_HANDLER.fullmatch(str(value)):
        raise SettingError(
            f"{name}: {value} is Java code", hint="in Python, sasl_oauth_token_provider gives the token"
        )


def _take_nothing(_found: _ConvertedSettings, _name: str, _value: object) -> None:
    """A setting that was looked at elsewhere."""


_CONVERTED: dict[str, Callable[[_ConvertedSettings, str, Any], None]] = {
    "ssl_ca_location": _take_ca_location,
    "ssl_endpoint_identification_algorithm": _take_host_check,
    "ssl_enabled_protocols": _take_protocols,
    "sasl_oauthbearer_extensions": _take_extensions,
    "enable_ssl_certificate_verification": _take_verification,
    "enable_sasl_oauthbearer_unsecure_jwt": _take_nothing,
    "ssl_truststore_type": _take_nothing,
    "ssl_keystore_type": _take_nothing,
} | dict.fromkeys(map(_plain, _HANDLERS), _take_handler)


# sasl.jaas.config


def _take_jaas(found: _ConvertedSettings, given: _Value) -> None:
    text = given.value.reveal() if isinstance(given.value, Secret) else str(given.value)
    try:
        entry = parse_jaas(Secret.parse(text).reveal() if found.is_text else text)
    except JaasError as error:
        raise SettingError(str(error.args[0]), hint=error.hint) from None
    name = f"{given.name} ({entry.name})"
    match entry.name:
        case "PlainLoginModule":
            _fit_mechanism(found, name, (PLAIN,))
            _take_user(found, name, entry)
        case "ScramLoginModule":
            if entry.options.get("tokenauth", "").lower() == "true":
                raise SettingError(f"{name}: delegation tokens are not supported")
            _fit_mechanism(found, name, SCRAM)
            _take_user(found, name, entry)
        case "OAuthBearerLoginModule":
            _fit_mechanism(found, name, (OAUTHBEARER,))
            _take_token_options(found, name, entry)
        case _:
            raise SettingError(
                f"{given.name}: the log-in module {entry.name} is not supported",
                hint="PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule are",
            )


def _fit_mechanism(found: _ConvertedSettings, name: str, fitting: tuple[str, ...]) -> None:
    given = found.values.get("sasl_mechanism")
    if given is None and len(fitting) == 1:
        found.put("sasl_mechanism", name, fitting[0])
    elif given is not None and str(given.value).upper() not in fitting:
        raise SettingError(
            f"{name} does not fit {given.name}={given.value}", hint=f"it is for {' or '.join(fitting)}"
        )


def _take_user(found: _ConvertedSettings, name: str, entry: JaasEntry) -> None:
    for option, field in (("username", "sasl_plain_username"), ("password", "sasl_plain_password")):
        if option not in entry.options:
            raise SettingError(f"{name} has no {option}")
        found.put(field, name, _secret(found, field, entry.options[option]))


def _take_token_options(found: _ConvertedSettings, name: str, entry: JaasEntry) -> None:
    options = entry.options
    for option, field in (
        ("clientId", "sasl_oauth_client_id"),
        ("clientSecret", "sasl_oauth_client_secret"),
        ("scope", "sasl_oauth_scope"),
    ):
        if option in options:
            found.put(field, name, _secret(found, field, options[option]))
    extensions = {
        key.removeprefix("extension_"): value
        for key, value in options.items()
        if key.startswith("extension_")
    }
    if extensions:
        found.put("sasl_oauth_extensions", name, extensions)
    if "unsecuredLoginStringClaim_sub" in options:
        subject = UnsecuredToken(options["unsecuredLoginStringClaim_sub"])
        found.put("sasl_oauth_token_provider", name, subject)


def _secret(found: _ConvertedSettings, field: str, text: str) -> str | Secret:
    """A secret of JAAS text stays hidden, also in a Python program."""
    return Secret(text) if field in SECRETS and not found.is_text else text
