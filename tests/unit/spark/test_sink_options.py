"""The options and columns of a write, and what they are refused with."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from kohort.client.producer.settings import ProducerSettings
from kohort.spark.errors import OptionError
from kohort.spark.sink_options import SETTINGS, check_columns, parse_sink_options

HERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
HEADERS = ArrayType(StructType().add("key", TEXT).add("value", BYTES))


def schema(**columns: DataType) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made.add(name, kind)
    return made


def test_settings_of_the_java_producer_become_ours() -> None:
    options = parse_sink_options(
        {
            **HERE,
            "topic": " orders ",
            "kafka.acks": "1",
            "kafka.compression.type": "zstd",
            "kafka.linger.ms": "20",
            "kafka.buffer.memory": "1000000",
            "kafka.enable.idempotence": "false",
            "kafka.security.protocol": "PLAINTEXT",
            "kafka.send.buffer.bytes": "4096",
            "checkpointLocation": "somewhere",
            "includeHeaders": "true",
        }
    )
    assert (options.bootstrap, options.topic) == ("127.0.0.1:9092", "orders")
    assert options.settings == {
        "security_protocol": "PLAINTEXT",
        "bootstrap_servers": "127.0.0.1:9092",
        "batch_size": 512 * 1024,
        "acks": 1,
        "compression_type": "zstd",
        "linger_ms": 20,
        "max_buffered_bytes": 1_000_000,
        "enable_idempotence": False,
    }


def test_settings_that_jobs_often_have_are_taken() -> None:
    settings = parse_sink_options({**HERE, "kafka.retries": "3", "kafka.batch.size": "0"}).settings
    assert ProducerSettings(**settings).batch_size == 1, "each record by itself"


def test_a_write_is_idempotent_unless_told_otherwise() -> None:
    settings = ProducerSettings(**parse_sink_options(HERE).settings)
    assert settings.is_idempotent
    assert settings.acks_on_wire == -1


def test_every_setting_exists_in_our_producer() -> None:
    assert {setting.ours for setting in SETTINGS.values()} <= set(ProducerSettings.__dataclass_fields__)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "a"}, "kafka.bootstrap.servers is missing"),
        ({**HERE, "topic": " "}, "the option topic is empty"),
        ({**HERE, "topics": "a"}, "did you mean topic"),
        ({**HERE, "kafka.ack": "1"}, r"no setting 'ack' \(did you mean kafka.acks"),
        ({**HERE, "kafka.acks": "most"}, "kafka.acks cannot be 'most' .it is all, 1 or 0"),
        ({**HERE, "kafka.acks": "7"}, "acks cannot be 7"),
        ({**HERE, "kafka.linger.ms": "soon"}, "kafka.linger.ms cannot be 'soon'"),
        ({**HERE, "kafka.enable.idempotence": "yes"}, "true or false"),
        ({**HERE, "kafka.compression.type": "rar"}, "kafka.compression.type cannot be 'rar'"),
        ({**HERE, "kafka.delivery.timeout.ms": "5"}, "must be at least kafka.linger.ms"),
        ({**HERE, "kafka.key.serializer": "x"}, "keys are columns"),
        ({**HERE, "kafka.transactional.id": "x"}, "no transactions yet"),
        ({**HERE, "kohort.transactional.id": "x"}, "no transactions yet"),
        ({**HERE, "kafka.security.protocol": "TLS"}, "one of PLAINTEXT, SSL"),
        ({**HERE, "kafka.sasl.mechanism": "PLAIN"}, "sasl_mechanism has no effect"),
        ({**HERE, "security.protocol": "SSL"}, "did you mean kafka.security.protocol"),
        ({**HERE, "kohort.secrets.on": "task"}, "it is driver or executor"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_work_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse_sink_options(options)


@pytest.mark.parametrize(
    "columns",
    [
        schema(value=TEXT),
        schema(key=TEXT, value=BYTES, headers=HEADERS, topic=TEXT, partition=INT),
        schema(key=BYTES, value=BYTES, topic=TEXT, partition=INT, offset=LONG, timestamp=TimestampType()),
    ],
    ids=["value", "all", "as read"],
)
def test_columns_of_the_connector_are_taken(columns: StructType) -> None:
    check_columns(columns, "orders")


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        (schema(key=TEXT, id=INT), "a", 'no column "value", only key, id'),
        (schema(value=TEXT), None, "which topic"),
        (schema(value=INT), "a", 'column "value" is int, and must be string or binary'),
        (schema(value=TEXT, key=LONG), "a", 'column "key" is bigint'),
        (schema(value=TEXT, topic=BYTES), None, 'column "topic" is binary, and must be string'),
        (schema(value=TEXT, partition=LONG), "a", 'column "partition" is bigint, and must be int'),
        (schema(value=TEXT, headers=MapType(TEXT, BYTES)), "a", 'column "headers" is map<string,binary>'),
        (schema(value=TEXT, headers=ArrayType(TEXT)), "a", "must be array<struct<key:string,value:binary>>"),
        (schema(value=TEXT, headers=ArrayType(schema(key=TEXT, value=TEXT))), "a", 'column "headers"'),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_columns_that_cannot_work_are_named(columns: StructType, topic: str | None, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        check_columns(columns, topic)


def test_options_that_do_not_exist_are_ignored_with_a_warning_if_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {**HERE, "kafka.ack": "1", "includeHeader": "true", "kohort.unknown.options": "warn"}
    assert parse_sink_options(given) == parse_sink_options(HERE)
    assert "'ack': it is ignored" in caplog.text
    assert "'includeheader': it is ignored" in caplog.text
