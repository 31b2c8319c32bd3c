"""Arrow batches out of a broker."""

import asyncio
import os
from pathlib import Path
from typing import Literal

import pytest

from kohort.client.cluster import ClusterClient
from kohort.client.columnar import ColumnOptions, ColumnReader, arrow_schema, fetch
from kohort.client.consumer import Consumer
from kohort.client.errors import BrokerError
from kohort.client.producer import Producer
from kohort.client.settings import ClientOptions
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.testing import Broker
from kohort.testing.plugin import Kohort

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]


def fill(bootstrap: str, topic: str, count: int, codec: Codec = "none") -> None:
    with Producer(
        bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, batch_size=4_000
    ) as producer:
        for number in range(count):
            key = None if number % 3 == 0 else b"key %d" % number
            value = None if number % 10 == 0 else b"value %d" % number
            headers = [("h", b"%d" % number), ("é", None)] if number % 4 == 0 else []
            producer.send(
                topic, value=value, key=key, headers=headers, partition=0, timestamp_ms=1_000 + number
            )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_range_is_read_whatever_the_codec(kohort: Kohort, codec: Codec) -> None:
    topic = kohort.topic()
    fill(kohort.bootstrap, topic, 2_000, codec)
    with ColumnReader(kohort.bootstrap) as reader:
        batches = list(reader.fetch(topic, 0, 13, 1_987, ColumnOptions(rows=500)))
    assert [batch.num_rows for batch in batches if batch.num_rows > 500] == []
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(13, 1_987))
    assert [row["value"] for row in rows[7:9]] == [None, b"value 21"]
    assert [row["key"] for row in rows[7:9]] == [b"key 20", None]
    assert rows[7]["headers"] == [{"key": "h", "value": b"20"}, {"key": "é", "value": None}]
    assert rows[8]["headers"] is None
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(topic, 0, 0)}
    assert batches[0].schema == arrow_schema()


def test_an_offset_the_log_does_not_have_is_refused(kohort: Kohort) -> None:
    topic = TopicPartition(TopicName(kohort.topic()), Partition(0))

    async def read() -> None:
        async with ClusterClient(kohort.bootstrap) as cluster:
            async for _ in fetch(cluster, topic, 5, 7):
                pass

    with pytest.raises(BrokerError) as caught:
        asyncio.run(read())
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_consumer_hands_out_tables_and_commits_what_it_handed_out(kohort: Kohort) -> None:
    topic, group = kohort.topic(), kohort.group()
    where = TopicPartition(TopicName(topic), Partition(0))
    fill(kohort.bootstrap, topic, 300)
    with Consumer(
        topic, bootstrap_servers=kohort.bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        first = next(iter(consumer))
        tables = [consumer.fetch_arrow(10_000, max_rows=100)[where]]
        record = consumer.poll(10_000, max_records=1)[where][0]
        while consumer.position(where) < 300:
            tables += consumer.fetch_arrow(10_000, columns=["offset", "value"]).values()
        consumer.pause(where)
        assert consumer.fetch_arrow(0) == {}
        consumer.commit()
        assert consumer.committed(where)[where] == OffsetAndMetadata(300, leader_epoch=0)
    assert (first.offset, record.offset) == (0, 101)
    assert tables[0].num_rows == 100
    assert tables[1].column_names == ["offset", "value"]
    offsets = [offset for table in tables for offset in table["offset"].to_pylist()]
    assert offsets == [*range(1, 101), *range(102, 300)]


@pytest.mark.slow
def test_a_reader_survives_a_restart_and_a_fork(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        fill(broker.bootstrap, "t", 4_000)
        with ColumnReader(broker.bootstrap, ClientOptions(retry_backoff_ms=20)) as reader:
            found = reader.fetch("t", 0, 0, 4_000, ColumnOptions(max_bytes=10_000, columns=("offset",)))
            offsets = next(found).column("offset").to_pylist()
            broker.restart()
            offsets += [offset for batch in found for offset in batch.column("offset").to_pylist()]
            assert offsets == list(range(4_000))
            child = os.fork()
            if child == 0:
                rows = sum(batch.num_rows for batch in reader.fetch("t", 0, 0, 4_000))
                os._exit(0 if rows == 4_000 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert sum(batch.num_rows for batch in reader.fetch("t", 0, 10, 20)) == 10
