"""The vocabulary of configs: which keys exist, what they may hold, what they default to.

One table serves CreateTopics, the three config APIs, the broker's own behaviour and the
generated documentation. A key that is accepted without an effect here says so in ``effect``.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from kohort.security.listeners import split_list

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_LONGEST_TEXT = 32_767  # of a string on the wire in versions that are not flexible


class ConfigType(IntEnum):
    """Codes of DescribeConfigs v3+."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from; codes of DescribeConfigs v1+."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ConfigKey(NamedTuple):
    """One config: its type, its default in Kafka's text form, and the check of a value."""

    name: str
    type: ConfigType
    default: str
    check: Callable[[str], str | None]  # what is wrong with a text, or None
    synonym: str = ""  # of a topic config: the broker config that sets its default
    effect: str = ""  # of an accepted config without an effect: why
    dynamic: bool = True  # of a broker config: may be altered while it runs


def number_between(parse: Callable[[str], float], low: float, high: float) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        try:
            value = parse(text)
        except ValueError:
            return "Not a number"
        if "_" in text:  # Python reads 1_000, Java does not
            return "Not a number"
        if not low <= value <= high:
            return f"Value must be {f'at least {low}' if value < low else f'no more than {high}'}"
        return None

    return check


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        return None if text in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def _one_of_any_case(*allowed: str) -> Callable[[str], str | None]:
    check = _one_of(*allowed)
    return lambda text: check(text.lower())


def _some_of(*allowed: str) -> Callable[[str], str | None]:
    check = _list_of(*allowed)
    return lambda text: check(text) if split_list(text) else "At least one is needed"


def _list_of(*allowed: str) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        wrong = [item for item in split_list(text) if item not in allowed]
        return f"String must be one of: {', '.join(allowed)}" if wrong else _anything(text)

    return check


def _boolean(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "Expected value to be either true or false"


def _anything(text: str) -> str | None:
    # What one version of DescribeConfigs cannot show would break it for everybody who uses that version.
    return None if len(text.encode()) <= _LONGEST_TEXT else f"Value must be at most {_LONGEST_TEXT} bytes"


class _Range(NamedTuple):
    """The values a number may have, both ends included."""

    low: float = 0
    high: float = _LONG_MAX


_ANY_LONG = _Range()
_ANY_INT = _Range(0, _INT_MAX)


def _long(
    name: str, default: int, synonym: str = "", allowed: _Range = _ANY_LONG, effect: str = ""
) -> ConfigKey:
    return ConfigKey(name, ConfigType.LONG, str(default), number_between(int, *allowed), synonym, effect)


def _int(
    name: str, default: int, synonym: str = "", allowed: _Range = _ANY_INT, effect: str = ""
) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, str(default), number_between(int, *allowed), synonym, effect)


def _flag(name: str, default: bool, synonym: str = "", effect: str = "") -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, str(default).lower(), _boolean, synonym, effect)


def _text(
    name: str, default: str, check: Callable[[str], str | None], synonym: str = "", effect: str = ""
) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, check, synonym, effect)


def _fixed(key: ConfigKey) -> ConfigKey:
    """A broker config that is read once, at start: altering it would be accepted and change nothing."""
    return key._replace(dynamic=False)


_UNREPLICATED = "one replica"
_NO_TIERS = "no tiered storage"
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            "cleanup.policy", ConfigType.LIST, "delete", _list_of("compact", "delete"), "log.cleanup.policy"
        ),
        _text("compression.type", "producer", _one_of(*_CODECS), "compression.type"),
        _int(
            "compression.gzip.level", -1, "compression.gzip.level", _Range(-1, 9), "cramjam's level is used"
        ),
        _int("compression.lz4.level", 9, "compression.lz4.level", _Range(1, 17), "cramjam's level is used"),
        _int(
            "compression.zstd.level",
            3,
            "compression.zstd.level",
            _Range(-131072, 22),
            "cramjam's level is used",
        ),
        _long("delete.retention.ms", 86_400_000, "log.cleaner.delete.retention.ms"),
        _long("file.delete.delay.ms", 60_000, "log.segment.delete.delay.ms", effect="files go at once"),
        _long("flush.messages", _LONG_MAX, "log.flush.interval.messages", _Range(1), "see --fsync"),
        _long("flush.ms", _LONG_MAX, "log.flush.interval.ms", effect="see --fsync"),
        ConfigKey(
            "follower.replication.throttled.replicas", ConfigType.LIST, "", _anything, effect=_UNREPLICATED
        ),
        _int("index.interval.bytes", 4_096, "log.index.interval.bytes"),
        ConfigKey(
            "leader.replication.throttled.replicas", ConfigType.LIST, "", _anything, effect=_UNREPLICATED
        ),
        _long("local.retention.bytes", -2, "log.local.retention.bytes", _Range(-2), _NO_TIERS),
        _long("local.retention.ms", -2, "log.local.retention.ms", _Range(-2), _NO_TIERS),
        _long("max.compaction.lag.ms", _LONG_MAX, "log.cleaner.max.compaction.lag.ms", _Range(1)),
        _int("max.message.bytes", 1_048_588, "message.max.bytes"),
        _long("message.timestamp.after.max.ms", 3_600_000, "log.message.timestamp.after.max.ms"),
        _long("message.timestamp.before.max.ms", _LONG_MAX, "log.message.timestamp.before.max.ms"),
        _text(
            "message.timestamp.type",
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            "log.message.timestamp.type",
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            "0.5",
            number_between(float, 0, 1),
            "log.cleaner.min.cleanable.ratio",
        ),
        _long("min.compaction.lag.ms", 0, "log.cleaner.min.compaction.lag.ms"),
        _int("min.insync.replicas", 1, "min.insync.replicas", _Range(1, _INT_MAX), _UNREPLICATED),
        _flag("preallocate", False, "log.preallocate", "files grow as they are written"),
        _flag("remote.log.copy.disable", False, effect=_NO_TIERS),
        _flag("remote.log.delete.on.disable", False, effect=_NO_TIERS),
        _flag("remote.storage.enable", False, effect=_NO_TIERS),
        _long("retention.bytes", -1, "log.retention.bytes", _Range(-1)),
        _long("retention.ms", 604_800_000, "log.retention.ms", _Range(-1)),
        _int("segment.bytes", 1_073_741_824, "log.segment.bytes", _Range(1_048_576, _INT_MAX)),
        _int(
            "segment.index.bytes",
            10_485_760,
            "log.index.size.max.bytes",
            _Range(4, _INT_MAX),
            "index files grow",
        ),
        _long("segment.jitter.ms", 0, "log.roll.jitter.ms", effect="one broker: nothing to spread"),
        _long("segment.ms", 604_800_000, "log.roll.ms", _Range(1)),
        _flag(
            "unclean.leader.election.enable", False, "unclean.leader.election.enable", effect=_UNREPLICATED
        ),
    )
}

_OWN_BROKER_CONFIGS = (
    _flag("auto.create.topics.enable", True),
    _int("num.partitions", 1, allowed=_Range(1, _INT_MAX)),
    _fixed(_int("default.replication.factor", 1, allowed=_Range(1, 1))),
    _flag("delete.topic.enable", True),
    _fixed(_int("group.initial.rebalance.delay.ms", 3_000)),
    _fixed(_int("group.max.session.timeout.ms", 1_800_000)),
    _fixed(_int("group.max.size", _INT_MAX, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.min.session.timeout.ms", 6_000)),
    _fixed(
        ConfigKey(
            "group.coordinator.rebalance.protocols",
            ConfigType.LIST,
            "classic,consumer",
            _list_of("classic", "consumer", "streams"),
        )
    ),
    _fixed(_int("group.consumer.session.timeout.ms", 45_000, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.consumer.min.session.timeout.ms", 45_000, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.consumer.max.session.timeout.ms", 60_000, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.consumer.heartbeat.interval.ms", 5_000, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.consumer.min.heartbeat.interval.ms", 5_000, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.consumer.max.heartbeat.interval.ms", 15_000, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("group.consumer.max.size", _INT_MAX, allowed=_Range(1, _INT_MAX))),
    _fixed(
        ConfigKey("group.consumer.assignors", ConfigType.LIST, "uniform,range", _some_of("uniform", "range"))
    ),
    _fixed(
        _text(
            "group.consumer.migration.policy",
            "bidirectional",
            _one_of_any_case("bidirectional", "upgrade", "downgrade", "disabled"),
        )
    ),
    _fixed(_int("group.consumer.regex.refresh.interval.ms", 600_000, allowed=_Range(10_000, _INT_MAX))),
    _fixed(_int("offset.metadata.max.bytes", 4_096)),
    _fixed(_long("offsets.retention.check.interval.ms", 600_000, allowed=_Range(1))),
    _fixed(_int("offsets.retention.minutes", 10_080, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("offsets.topic.num.partitions", 50, allowed=_Range(1, _INT_MAX))),
    ConfigKey(
        "offsets.topic.replication.factor", ConfigType.SHORT, "1", number_between(int, 1, 1), dynamic=False
    ),
    _fixed(_int("offsets.topic.segment.bytes", 104_857_600, allowed=_Range(1, _INT_MAX))),
    _long("log.retention.check.interval.ms", 300_000, allowed=_Range(1)),
    _long("log.cleaner.backoff.ms", 15_000),
    _fixed(_int("max.incremental.fetch.session.cache.slots", 1_000)),
    _int("fetch.max.bytes", 57_671_680, allowed=_Range(1_024, _INT_MAX)),
    _long("connections.max.idle.ms", 600_000),
    _int("max.connections", _INT_MAX),
    _fixed(_int("max.connections.per.ip", _INT_MAX)),
    ConfigKey("max.connections.per.ip.overrides", ConfigType.STRING, "", _anything, dynamic=False),
    _long("producer.id.expiration.ms", 86_400_000, allowed=_Range(1)),
    _fixed(_long("queued.max.request.bytes", -1, allowed=_Range(-1))),
    _fixed(_long("kohort.fetch.sessions.max.bytes", -1, allowed=_Range(-1))),
    _fixed(_long("kohort.stalled.ms", 10_000, allowed=_Range(100))),
    _fixed(_long("kohort.group.members.max.bytes", -1, allowed=_Range(-1))),
    _long("kohort.scrub.bytes.per.second", 4_194_304, allowed=_Range(0)),
    _flag("kohort.journal.commits", False),
    _long("kohort.journal.retention.ms", 604_800_000, allowed=_Range(-1)),
    _fixed(_int("kohort.cluster.lease.ms", 3_000, allowed=_Range(100, 600_000))),
    _fixed(_int("kohort.cluster.renewal.ms", 500, allowed=_Range(10, 100_000))),
    _fixed(_int("kohort.cluster.rebalance.delay.ms", 10_000, allowed=_Range(0))),
    _fixed(_int("kohort.cluster.read.connections", 2, allowed=_Range(1, 100))),
    _fixed(_long("kohort.cluster.cache.bytes", 268_435_456, allowed=_Range(0))),
)


def _setting(name: str, default: str = "", check: Callable[[str], str | None] = _anything) -> ConfigKey:
    """A text that is read at start, for all listeners or, with a prefix, for one of them."""
    return ConfigKey(name, ConfigType.STRING, default, check, dynamic=False)


def _secret(name: str) -> ConfigKey:
    """A text that no reply shows."""
    return ConfigKey(name, ConfigType.PASSWORD, "", _anything, dynamic=False)


_STORE_TYPES = _one_of("PEM", "JKS", "PKCS12")

_SECURITY_CONFIGS = (
    _setting("listener.security.protocol.map"),
    _setting("ssl.keystore.type", "PEM", _STORE_TYPES),
    _setting("ssl.keystore.location"),
    _setting("ssl.keystore.certificate.chain"),
    _secret("ssl.keystore.key"),
    _secret("ssl.keystore.password"),
    _secret("ssl.key.password"),
    _setting("ssl.truststore.type", "PEM", _STORE_TYPES),
    _setting("ssl.truststore.location"),
    _setting("ssl.truststore.certificates"),
    _secret("ssl.truststore.password"),
    _setting("ssl.certfile"),
    _setting("ssl.keyfile"),
    _setting("ssl.cafile"),
    _setting("ssl.client.auth", "none", _one_of("none", "requested", "required")),
    _setting("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", _list_of("TLSv1.2", "TLSv1.3")),
    _setting("ssl.cipher.suites"),
    _setting("ssl.principal.mapping.rules", "DEFAULT"),
    _fixed(_flag("ssl.allow.dn.changes", False)),
    _fixed(_flag("ssl.allow.san.changes", False)),
    _setting("sasl.enabled.mechanisms"),
    _secret("sasl.jaas.config"),
    _setting("sasl.oauthbearer.jwks.endpoint.url"),
    _fixed(_long("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, allowed=_Range(100))),
    _fixed(_long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, allowed=_Range(10))),
    _fixed(_long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, allowed=_Range(10))),
    _setting("sasl.oauthbearer.expected.audience"),
    _setting("sasl.oauthbearer.expected.issuer"),
    _setting("sasl.oauthbearer.sub.claim.name", "sub"),
    _setting("sasl.oauthbearer.scope.claim.name", "scope"),
    _fixed(_int("sasl.oauthbearer.clock.skew.seconds", 30)),
    _setting("kohort.oauthbearer.required.scope"),
    _fixed(_flag("kohort.oauthbearer.unsecured", False)),
    _fixed(_int("sasl.server.max.receive.size", 524_288, allowed=_Range(1, _INT_MAX))),
    _fixed(_long("connections.max.reauth.ms", 0)),
    _fixed(_int("connection.failed.authentication.delay.ms", 100)),
    _fixed(_long("kohort.authentication.timeout.ms", 10_000, allowed=_Range(100))),
    _fixed(_int("max.connection.creation.rate", _INT_MAX, allowed=_Range(1, _INT_MAX))),
    _fixed(_int("kohort.max.connection.creation.rate.per.ip", _INT_MAX, allowed=_Range(1, _INT_MAX))),
    _setting("authorizer", "", _one_of("", "acl")),
    _setting("authorizer.class.name"),
    _setting("super.users"),
    _fixed(_flag("allow.everyone.if.no.acl.found", False)),
)

_LISTENER_PREFIX = "listener.name."
# What a broker says of itself; Kafka reads it at its start alone.
_OF_THE_START = {"broker.id", "node.id", "log.dir", "log.dirs", "listeners", "advertised.listeners"}


def find_broker_config(name: str) -> ConfigKey | None:
    """The config of a name, which may be for one listener only: ``listener.name.NAME.KEY``."""
    if not name.startswith(_LISTENER_PREFIX):
        return BROKER_CONFIGS.get(name)
    rest = name.removeprefix(_LISTENER_PREFIX).partition(".")[2]
    while rest:  # a mechanism may stand between listener and key
        if rest in LISTENER_CONFIGS:
            return LISTENER_CONFIGS[rest]
        rest = rest.partition(".")[2]
    return None


def broker_config_to_alter(name: str) -> ConfigKey:
    """The config of a name that is altered at run time: a plug-in may know one that we do not."""
    known = find_broker_config(name)
    if known is not None:
        return known
    return ConfigKey(name, ConfigType.UNKNOWN, "", lambda _text: None, dynamic=name not in _OF_THE_START)


LISTENER_CONFIGS: dict[str, ConfigKey] = {
    key.name: key
    for key in _SECURITY_CONFIGS
    if key.name.startswith(("ssl.", "sasl.", "connection", "max.connection.", "kohort."))
} | {key.name: key for key in _OWN_BROKER_CONFIGS if key.name == "max.connections"}
BROKER_CONFIGS: dict[str, ConfigKey] = {
    **{
        key.synonym: key._replace(name=key.synonym, synonym="", dynamic=True)
        for key in TOPIC_CONFIGS.values()
        if key.synonym
    },
    **{key.name: key for key in (*_OWN_BROKER_CONFIGS, *_SECURITY_CONFIGS)},
}
