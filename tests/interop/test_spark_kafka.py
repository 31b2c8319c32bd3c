"""Our Spark queries against Apache Kafka: tables, streams, a query that is a member of a group, the sink."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer as ConfluentProducer
from tests.clients.libraries import Production
from tests.clients.records import samples
from tests.clients.with_confluent import Confluent
from tests.interop.conftest import StartTarget, need
from tests.interop.peers import BY_NAME, run_steps
from tests.interop.spark_topics import OURS, SPARKS, Topics
from tools.peers.kafka_tools import Tool, ToolShell
from tools.peers.pins import Peer

from kohort.client.admin.results import CommittedOffset
from kohort.client.producer.records import partition_for_key
from kohort.model.ids import Offset
from kohort.spark.offsets import topic_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]
FreshName = Callable[[str], str]
KEPT = {"retention.ms": "-1"}  # the samples are old


@pytest.fixture(scope="module")
def topics(start_target: StartTarget, spark: "SparkSession") -> Topics:
    return Topics(spark, start_target("kafka"))


def feed(topics: Topics, topic: str, count: int, *, partitions: int) -> None:
    Confluent().produce(
        topics.target.bootstrap, topic, samples(count, partitions=partitions), Production(codec="lz4")
    )


def test_a_table_starts_where_a_group_is(topics: Topics, fresh_name: FreshName) -> None:
    topic = topics.make(fresh_name("spark-bounded"), 2, KEPT)
    feed(topics, topic, 60, partitions=2)
    done = {topic_partition(topic, number): CommittedOffset(Offset(10 + number)) for number in range(2)}
    topics.ask(lambda admin: admin.alter_group_offsets(topic, done))
    found = topics.read(
        OURS,
        topic,
        startingOffsets="group",
        endingOffsets=json.dumps({topic: {"0": -1, "1": 20}}),
        kafka__group__id=topic,
    )
    assert [(row[3], row[4]) for row in found.rows] == [
        *((0, offset) for offset in range(10, 30)),
        *((1, offset) for offset in range(11, 20)),
    ]


def test_aborted_transactions_are_seen_by_those_who_ask_for_them(
    topics: Topics, fresh_name: FreshName
) -> None:
    topic = topics.make(fresh_name("spark-transactions"), 1)
    producer = ConfluentProducer(
        {"bootstrap.servers": topics.target.bootstrap, "transactional.id": topic, "linger.ms": 0}
    )
    producer.init_transactions(30)
    for value, ends in (
        (b"one", producer.commit_transaction),
        (b"two", producer.abort_transaction),
        (b"three", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        ends(30)

    need(Peer.SPARK_CONNECTOR)

    def values(**options: str) -> list[bytes]:
        ours = topics.read(OURS, topic, **options)
        assert ours == topics.read(SPARKS, topic, **options)
        return [bytes(row[1]) for row in ours.rows]

    assert values() == [b"one", b"two", b"three"]
    assert values(kafka__isolation__level="read_committed") == [b"one", b"three"]


def test_a_stream_goes_on_from_its_checkpoint_with_limits_and_new_partitions(
    topics: Topics, fresh_name: FreshName, tmp_path: Path
) -> None:
    topic = topics.make(fresh_name("spark-assign"), 1, KEPT)
    feed(topics, topic, 25, partitions=1)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10", "includeHeaders": "true"}
    query = topics.land(topics.stream(OURS, topic, **options), tmp_path)
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [10, 10, 5]
    topics.ask(lambda admin: admin.create_partitions({topic: 2}))
    feed(topics, topic, 12, partitions=2)
    topics.land(topics.stream(OURS, topic, **options), tmp_path)
    rows = topics.landed(tmp_path)
    assert [row[3:5] for row in rows] == [(0, n) for n in range(31)] + [(1, n) for n in range(6)]
    assert rows == topics.read(OURS, topic, includeHeaders="true").rows


def test_a_query_in_a_group_commits_where_kafkas_tools_and_clients_find_it(
    topics: Topics, fresh_name: FreshName, kafka_tools: ToolShell, tmp_path: Path
) -> None:
    topic = topics.make(fresh_name("spark-group"), 2, KEPT)
    stream = topics.stream(
        OURS,
        topic,
        startingOffsets="earliest",
        kafka__group__id=topic,
        kohort__checkpoint=str(tmp_path / "checkpoint"),
    )
    for total in (40, 60):
        feed(topics, topic, 40 if total == 40 else 20, partitions=2)
        topics.land(stream, tmp_path)
        assert shown_by_kafka(kafka_tools, topics, topic) == {("0", total // 2, 0), ("1", total // 2, 0)}
        committed = topics.ask(lambda admin: admin.list_group_offsets(topic))
        assert [int(committed[topic_partition(topic, number)].offset) for number in range(2)] == [
            total // 2,
            total // 2,
        ]
    assert [row[3:5] for row in topics.landed(tmp_path)] == [(p, n) for p in range(2) for n in range(30)]
    # The group goes on in Java, with what the query has not read.
    java = BY_NAME["java-4"]
    need(java.peer)
    feed(topics, topic, 10, partitions=2)
    events = run_steps(java, topics.target.bootstrap, "group", topic=topic, group=topic, records=10)
    read = sorted((each["partition"], each["offset"]) for each in events if each["event"] == "record")
    assert read == [(p, n) for p in range(2) for n in range(30, 35)]


def shown_by_kafka(tools: ToolShell, topics: Topics, group: str) -> set[tuple[str, int, int]]:
    """Partition, committed offset and lag, as kafka-consumer-groups prints them."""
    at = ("--bootstrap-server", topics.target.bootstrap)
    lines = tools.check(Tool.CONSUMER_GROUPS, *at, "--describe", "--group", group).lines()
    table = [line.split() for line in lines]
    heading = next(row for row in table if "CURRENT-OFFSET" in row)
    partition, current, lag = (heading.index(column) for column in ("PARTITION", "CURRENT-OFFSET", "LAG"))
    rows = [row for row in table if len(row) >= len(heading) - 3 and row[0] == group]
    return {(row[partition], int(row[current]), int(row[lag])) for row in rows}


def test_what_is_written_by_key_is_where_java_would_put_it(topics: Topics, fresh_name: FreshName) -> None:
    topic = topics.make(fresh_name("spark-sink"), 3)
    frame = topics.spark.range(1_000).selectExpr(
        "CAST(id % 31 AS STRING) AS key", "to_json(struct(id)) AS value"
    )
    topics.write(OURS, frame, topic, kafka__compression__type="zstd", kafka__linger__ms="20")
    read = Confluent().read(topics.target.bootstrap, topic, 3, 1_000)
    assert sorted(json.loads(one.value or b"")["id"] for one in read) == list(range(1_000))
    assert all(one.place.partition == partition_for_key(one.key or b"", 3) for one in read)
