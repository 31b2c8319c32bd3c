"""The options and columns of a write: those of Spark's Kafka connector, checked before anything runs.

Light on purpose: Spark's helper processes import this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from kohort.client.producer.settings import ProducerSettings
from kohort.client.settings import SettingError
from kohort.spark.client_settings import security_settings
from kohort.spark.errors import OptionError, unknown_option
from kohort.spark.option_table import DRIVER, SECRETS_ON, SECURITY, UNKNOWN_OPTIONS
from kohort.spark.option_table import OPTIONS as SOURCE_OPTIONS

_KAFKA = "kafka."
_BOOTSTRAP = "kafka.bootstrap.servers"
_TOPIC = "topic"
_WITHOUT_EFFECT = frozenset(
    {"checkpointlocation", "path", "queryname", *(option.name.lower() for option in SOURCE_OPTIONS)}
)

INT, FLAG, TEXT, ACKS = "int", "flag", "text", "acks"


class SinkSetting(NamedTuple):
    """A setting of the Java producer that has an effect: our name for it, and what its value is."""

    ours: str
    kind: str


SETTINGS = {
    "acks": SinkSetting("acks", ACKS),
    "batch.size": SinkSetting("batch_size", INT),
    "buffer.memory": SinkSetting("max_buffered_bytes", INT),
    "client.id": SinkSetting("client_id", TEXT),
    "compression.type": SinkSetting("compression_type", TEXT),
    "delivery.timeout.ms": SinkSetting("delivery_timeout_ms", INT),
    "enable.idempotence": SinkSetting("enable_idempotence", FLAG),
    "linger.ms": SinkSetting("linger_ms", INT),
    "max.block.ms": SinkSetting("max_block_ms", INT),
    "max.in.flight.requests.per.connection": SinkSetting("max_in_flight_requests_per_connection", INT),
    "max.request.size": SinkSetting("max_request_size", INT),
    "metadata.max.age.ms": SinkSetting("metadata_max_age_ms", INT),
    "request.timeout.ms": SinkSetting("request_timeout_ms", INT),
    "retry.backoff.ms": SinkSetting("retry_backoff_ms", INT),
    "retry.backoff.max.ms": SinkSetting("retry_backoff_max_ms", INT),
    "socket.connection.setup.timeout.ms": SinkSetting("connect_timeout_ms", INT),
}
"""``kafka.<name>`` of these goes to our producer."""

ACCEPTED = frozenset(
    {
        "auto.include.jmx.reporter", "client.dns.lookup", "compression.gzip.level", "compression.lz4.level",
        "compression.zstd.level", "connections.max.idle.ms", "enable.metrics.push", "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
        "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries",
        "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip
"""Settings of the Java producer that change nothing here: taken, so that a job moves over unchanged.

``retries`` too: as Kafka advises, ``delivery.timeout.ms`` says how long a record is tried.
"""

_NO_TRANSACTIONS = "there are no transactions yet: a write is at-least-once, and idempotent within a task"
REFUSED = {
    "key.serializer": "keys are columns: cast them to string or binary",
    "value.serializer": "values are columns: cast them to string or binary",
    "interceptor.classes": "interceptors are Java code; use functions of DataFrames",
    "partitioner.class": 'partitioners are Java code; use a column "partition"',
    "partitioner.ignore.keys": 'use a column "partition", or leave the column "key" out',
    "transactional.id": _NO_TRANSACTIONS,
    "transaction.timeout.ms": _NO_TRANSACTIONS,
}
"""Settings that cannot be honoured, and what to do instead."""

BATCH_SIZE = 512 * 1024  # a task has its records at hand: large batches cost no waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where a write goes, and how: ``settings`` are keyword arguments of our producer."""

    bootstrap: str
    topic: str | None
    settings: dict[str, Any]


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises ``OptionError`` for an option that does not exist or a value it cannot have."""
    given = {name.lower(): text for name, text in options.items()}
    bootstrap = given.pop(_BOOTSTRAP, "").strip()
    if not bootstrap:
        raise OptionError(f"the option {_BOOTSTRAP} is missing", hint="set it to host:port of a broker")
    topic = given.pop(_TOPIC, None)
    if topic is not None and not topic.strip():
        raise OptionError("the option topic is empty", hint='name a topic, or have a column "topic"')
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "batch_size": BATCH_SIZE}
    kafka = {
        name.removeprefix(_KAFKA): text.strip() for name, text in given.items() if name.startswith(_KAFKA)
    }
    settings |= security_settings(kafka, given.get(SECRETS_ON, DRIVER).strip().lower())
    is_refused = given.get(UNKNOWN_OPTIONS, "refuse").strip().lower() != "warn"
    for name, text in given.items():
        if not name.startswith(_KAFKA):
            _check_own(name, is_refused)
        elif not name.removeprefix(_KAFKA).startswith(SECURITY):
            _apply(settings, name.removeprefix(_KAFKA), text, is_refused)
    try:
        ProducerSettings(**settings)
    except SettingError as error:
        raise OptionError(in_kafkas_words(str(error.args[0])), hint=in_kafkas_words(error.hint)) from None
    return SinkOptions(bootstrap=bootstrap, topic=topic.strip() if topic else None, settings=settings)


def in_kafkas_words(text: str) -> str:
    """A text of our producer with the names of settings as they are in options."""
    for name, setting in sorted(SETTINGS.items(), key=lambda item: -len(item[1].ours)):
        if "_" in setting.ours:
            text = text.replace(setting.ours, _KAFKA + name)
    return text


def _check_own(name: str, is_refused: bool) -> None:
    if name.startswith("kohort.transaction"):
        raise OptionError(f"the option {name} is not supported", hint=_NO_TRANSACTIONS)
    if name.startswith(SECURITY):  # without effect the records would go out in the clear
        raise OptionError(f"a write has no option {name!r}", hint=f"did you mean {_KAFKA}{name}?")
    if name not in _WITHOUT_EFFECT:
        close = get_close_matches(name, [_TOPIC, _BOOTSTRAP, *_WITHOUT_EFFECT], n=1)
        hint = f"did you mean {close[0]}?" if close else f"a write has {_TOPIC}, {_BOOTSTRAP} and kafka.*"
        unknown_option(OptionError(f"a write has no option {name!r}", hint=hint), is_refused=is_refused)


def _apply(settings: dict[str, Any], name: str, text: str, is_refused: bool) -> None:
    if name in REFUSED:
        raise OptionError(f"kafka.{name} is not supported", hint=REFUSED[name])
    if name in SETTINGS:
        setting = SETTINGS[name]
        settings[setting.ours] = _value(name, setting.kind, text.strip())
        if name == "batch.size":
            settings[setting.ours] = settings[setting.ours] or 1  # Java's 0: each record by itself
    elif name not in ACCEPTED:
        close = get_close_matches(name, [*SETTINGS, *ACCEPTED, "bootstrap.servers"], n=1)
        hint = f"did you mean kafka.{close[0]}?" if close else "docs/howto/spark-sink.md lists them"
        unknown_option(OptionError(f"a producer has no setting {name!r}", hint=hint), is_refused=is_refused)


def _value(name: str, kind: str, text: str) -> Any:  # noqa: ANN401 (as the setting has it)
    if kind == FLAG:
        if text.lower() not in ("true", "false"):
            raise OptionError(f"kafka.{name} cannot be {text!r}", hint="it is true or false")
        return text.lower() == "true"
    if kind == TEXT or (kind == ACKS and text == "all"):
        return text
    try:
        return int(text)
    except ValueError:
        hint = "it is all, 1 or 0" if kind == ACKS else "it is a whole number"
        raise OptionError(f"kafka.{name} cannot be {text!r}", hint=hint) from None


# Columns

_TEXT_OR_BYTES: tuple[type[DataType], ...] = (StringType, BinaryType)


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ``OptionError`` unless records can be made of such rows. Columns of other names are left out."""
    columns = {field.name: field for field in schema.fields}
    if "value" not in columns:
        raise OptionError(
            f'there is no column "value", only {", ".join(columns) or "none at all"}',
            hint="""make one, for example with selectExpr("to_json(struct(*)) AS value")""",
        )
    if topic is None and "topic" not in columns:
        raise OptionError(
            "nothing says which topic to write to", hint='set "topic", or have a column "topic"'
        )
    for name in ("key", "value"):
        _check_type(columns.get(name), _TEXT_OR_BYTES, "string or binary")
    _check_type(columns.get("topic"), (StringType,), "string")
    _check_type(columns.get("partition"), (IntegerType,), "int")
    headers = columns.get("headers")
    if headers is not None and not _are_headers(headers.dataType):
        raise _wrong_type(headers, "array<struct<key:string,value:binary>>")


def _check_type(column: StructField | None, allowed: tuple[type[DataType], ...], names: str) -> None:
    if column is not None and not isinstance(column.dataType, allowed):
        raise _wrong_type(column, names)


def _wrong_type(column: StructField, names: str) -> OptionError:
    return OptionError(
        f'the column "{column.name}" is {column.dataType.simpleString()}, and must be {names}',
        hint="cast it, or leave it out",
    )


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    kinds = {field.name: type(field.dataType) for field in found.elementType.fields}
    return kinds == {"key": StringType, "value": BinaryType}
