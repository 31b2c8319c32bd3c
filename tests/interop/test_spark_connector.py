"""Spark's own Kafka connector beside ours, on Apache Kafka and on Kohort: the same rows in and out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.libraries import CODECS, Production
from tests.clients.records import START, samples
from tests.clients.with_confluent import Confluent
from tests.interop.conftest import need
from tests.interop.spark_topics import OURS, SPARKS, Topics, finish
from tests.interop.targets import Target
from tools.peers.pins import Peer

from kohort.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]
FreshName = Callable[[str], str]
KEPT = {"retention.ms": "-1"}  # the samples are old
FRAME = (
    "CAST(id % 97 AS STRING) AS key",
    "IF(id % 10 = 3, NULL, CAST(CAST(id AS STRING) AS BINARY)) AS value",
    "IF(id % 2 = 0, array(struct('even' AS key, CAST('1' AS BINARY) AS value),"
    " struct('even' AS key, CAST(NULL AS BINARY) AS value)), NULL) AS headers",
)


@pytest.fixture(scope="module")
def topics(target: Target, spark: "SparkSession") -> Topics:
    need(Peer.SPARK_CONNECTOR)
    return Topics(spark, target)


@pytest.fixture(scope="module")
def filled(topics: Topics, fresh_name: FreshName) -> tuple[str, str]:
    """A topic with records of every shape and codec, and one whose times are the broker's."""
    mixed = topics.make(fresh_name("connector-mixed"), 3, KEPT)
    stamped = topics.make(fresh_name("connector-stamped"), 1, {"message.timestamp.type": "LogAppendTime"})
    library, bootstrap = Confluent(), topics.target.bootstrap
    for codec in CODECS:
        library.produce(bootstrap, mixed, samples(120, partitions=3), Production(codec=codec))
    library.produce(bootstrap, stamped, samples(20, partitions=1), Production())
    return mixed, stamped


def test_both_connectors_give_the_same_rows_and_schema(topics: Topics, filled: tuple[str, str]) -> None:
    both = ",".join(filled)
    ours = topics.read(OURS, both, includeHeaders="true")
    assert ours == topics.read(SPARKS, both, includeHeaders="true")
    assert len(ours.rows) == len(CODECS) * 120 + 20
    assert {row[6] for row in ours.rows} == {0, 1}, "times of producers and of the broker"
    assert any(row[0] is None for row in ours.rows)
    assert any(row[1] is None for row in ours.rows)
    assert any(row[7] is not None for row in ours.rows)


@pytest.mark.parametrize(
    "options",
    [
        {
            "startingOffsets": '{"T": {"0": 7, "1": -2, "2": 9}}',
            "endingOffsets": '{"T": {"0": 9, "1": 44, "2": -1}}',
        },
        {"startingTimestamp": str(START + 30), "endingTimestamp": str(START + 90)},
        {"startingOffsetsByTimestamp": json.dumps({"T": {"0": START, "1": START + 60, "2": START + 119}})},
        {"minPartitions": "7"},
        {"startingOffsets": '{"T": {"0": 200, "1": 200, "2": 200}}'},
    ],
    ids=["offsets", "times", "times-by-partition", "cut", "none"],
)
def test_options_choose_the_same_rows_for_both(
    topics: Topics, filled: tuple[str, str], options: dict[str, str]
) -> None:
    mixed, _ = filled
    named = {name: value.replace('"T"', f'"{mixed}"') for name, value in options.items()}
    assert topics.read(OURS, mixed, **named) == topics.read(SPARKS, mixed, **named)


def test_a_checkpoint_of_the_connector_is_continued_by_ours(
    topics: Topics, fresh_name: FreshName, tmp_path: Path
) -> None:
    """A job moves to our connector by the name of the format alone; its checkpoint then gets topic ids."""
    topic = topics.make(fresh_name("connector-stream"), 2, KEPT)
    for turn, form in enumerate((SPARKS, SPARKS, OURS, OURS)):
        Confluent().produce(topics.target.bootstrap, topic, samples(40, partitions=2), Production())
        rows = topics.stream(form, topic, startingOffsets="earliest", includeHeaders="true")
        query = topics.land(rows, tmp_path)
        done = [each for each in query.recentProgress if each.numInputRows]
        assert len(done) == 1, f"turn {turn}"
        reached = json.loads(done[0].sources[0].endOffset)[topic]
        assert (reached.pop("id", None) is not None) is (form is OURS)
        assert reached == _each(20 * turn + 20)
    assert topics.landed(tmp_path) == topics.read(OURS, topic, includeHeaders="true").rows


def _each(offset: int) -> dict[str, int]:
    return {"0": offset, "1": offset}


def test_both_write_the_same_records_to_the_same_partitions(topics: Topics, fresh_name: FreshName) -> None:
    written = {form: topics.make(fresh_name(f"connector-by-{form}"), 3) for form in (OURS, SPARKS)}
    frame = topics.spark.range(0, 500, 1, 1).selectExpr(*FRAME)
    chosen = topics.spark.range(500, 520, 1, 1).selectExpr(*FRAME, "CAST(id % 3 AS INT) AS partition")
    for form, topic in written.items():
        topics.write(form, frame, topic, kafka__compression__type="zstd")
        topics.write(form, chosen, topic)
    # Each reads what the other wrote. Times are those of writing.
    ours = topics.read(SPARKS, written[OURS], includeHeaders="true").rows
    sparks = topics.read(OURS, written[SPARKS], includeHeaders="true").rows
    assert len(ours) == 520
    assert [_without_time(row) for row in ours] == [_without_time(row) for row in sparks]


def test_both_sinks_pass_a_stream_on(topics: Topics, filled: tuple[str, str], tmp_path: Path) -> None:
    mixed, _ = filled
    wanted = sorted(_by_content(row) for row in topics.read(OURS, mixed).rows)
    for form, other in ((OURS, SPARKS), (SPARKS, OURS)):
        topic = topics.make(f"{mixed}-by-{form}", 2)
        rows = topics.stream(other, mixed, startingOffsets="earliest").select("key", "value")
        topics.write_stream(form, rows, topic, tmp_path / form)
        topics.write_stream(form, rows, topic, tmp_path / form)  # goes on, and has nothing to write
        assert sorted(_by_content(row) for row in topics.read(other, topic).rows) == wanted


def _without_time(row: tuple[object, ...]) -> tuple[object, ...]:
    key, value, _topic, partition, offset, _time, kind, headers = row
    return key, value, partition, offset, kind, headers


def _by_content(row: tuple[bytes | None, ...]) -> tuple[bool, bytes, bool, bytes]:
    key, value = row[:2]
    return key is None, bytes(key or b""), value is None, bytes(value or b"")


def test_sparks_connector_logs_in_at_a_secured_kohort(spark: "SparkSession", tmp_path: Path) -> None:
    """Java's client in Spark's driver and tasks: TLS with an authority as text, SCRAM, and rights."""
    need(Peer.SPARK_CONNECTOR)
    rights: dict[str, str | int | bool] = {"authorizer": "acl", "super.users": "User:alice"}
    with Broker(security={"alice": "alice-secret"}, configs=rights) as broker:
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
        options = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": broker.certificate,
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": f'{scram} required username="alice" password="alice-secret";',
        }
        broker.create_topic("in", partitions=2)
        broker.create_topic("out")
        frame = spark.range(0, 100, 1, 2).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS value")
        frame.write.format(SPARKS).options(**options, topic="in").mode("append").save()
        stream = spark.readStream.format(SPARKS).options(
            **options, subscribe="in", startingOffsets="earliest"
        )
        sink = stream.load().select("value").writeStream.format(SPARKS).options(**options, topic="out")
        finish(
            sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )
        found = {
            form: spark.read.format(form).options(**options, subscribe="out").load().collect()
            for form in (OURS, SPARKS)
        }
        for form, rows in found.items():
            assert sorted(int(bytes(row.value)) for row in rows) == list(range(100)), form
