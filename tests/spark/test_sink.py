"""Real writes: a batch read back by librdkafka, a stream from its checkpoint on, a refusal in time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import TopicPartition

from kohort import Producer
from kohort.client.producer.records import partition_for_key
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def read_back(bootstrap: str, topic: str, partitions: int) -> "Iterator[Message]":
    """All that is in a topic now, as another client reads it."""
    consumer = Librdkafka({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    try:
        for number in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)
            if end == 0:
                continue
            consumer.assign([TopicPartition(topic, number, 0)])
            for _ in range(end):
                message = consumer.poll(60)
                assert message is not None, "librdkafka read nothing for a minute"
                assert message.error() is None
                yield message
    finally:
        consumer.close()


def test_a_data_frame_is_written_by_key_with_headers(spark: "SparkSession", kohort: Kohort) -> None:
    topic = kohort.topic(partitions=3)
    frame = spark.range(2_000).selectExpr(
        "CAST(id % 97 AS STRING) AS key",
        "to_json(struct(id)) AS value",
        "IF(id % 2 = 0, array(struct('even' AS key, CAST('1' AS BINARY) AS value)), NULL) AS headers",
    )
    options = {"kafka.bootstrap.servers": kohort.bootstrap, "kafka.compression.type": "zstd", "topic": topic}
    frame.repartition(2).write.format("kohort").options(**options).mode("append").save()

    found = list(read_back(kohort.bootstrap, topic, 3))

    ids = [json.loads(message.value() or b"")["id"] for message in found]
    assert sorted(ids) == list(range(2_000))
    for number, message in zip(ids, found, strict=True):
        assert message.key() == str(number % 97).encode()
        assert message.partition() == partition_for_key(str(number % 97).encode(), 3)
        assert (message.headers() or []) == ([] if number % 2 else [("even", b"1")])


def test_a_stream_from_topic_to_topic_goes_on_from_its_checkpoint(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path
) -> None:
    source, target = kohort.topic(partitions=2), kohort.topic(partitions=2)
    options = {"kafka.bootstrap.servers": kohort.bootstrap}

    def run(numbers: range) -> None:
        with Producer(bootstrap_servers=kohort.bootstrap) as producer:
            for number in numbers:
                producer.send(source, str(number).encode(), str(number).encode())
        rows = spark.readStream.format("kohort").options(
            **options, subscribe=source, startingOffsets="earliest"
        )
        doubled = rows.load().selectExpr("key", "CAST(CAST(value AS STRING) * 2 AS STRING) AS value")
        query = (
            doubled.writeStream.format("kohort")
            .options(**options, topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run(range(100))
    run(range(100, 150))

    found = {
        message.key(): float(message.value() or b"") for message in read_back(kohort.bootstrap, target, 2)
    }
    assert found == {str(number).encode(): number * 2.0 for number in range(150)}
    assert len(list(read_back(kohort.bootstrap, target, 2))) == 150


def test_a_frame_without_a_value_is_refused_before_anything_runs(
    spark: "SparkSession", kohort: Kohort
) -> None:
    from pyspark.errors import AnalysisException

    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS key")
    options = {"kafka.bootstrap.servers": kohort.bootstrap, "topic": "orders"}
    with pytest.raises(AnalysisException, match='there is no column "value", only key'):
        frame.write.format("kohort").options(**options).mode("append").save()
