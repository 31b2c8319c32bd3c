"""The writers as plain objects against an embedded broker: what is stored, what is told, what fails."""

import pickle
from collections.abc import Iterator, Sequence

import pytest
from pyarrow import lib as pa
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType

from kohort import Consumer
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.producer.records import partition_for_key
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.errors import OptionError
from kohort.spark.sink import (
    BatchArrowWriter,
    SinkReceipts,
    StreamArrowWriter,
    WriteError,
    Written,
    WrittenRange,
)
from kohort.spark.source import KohortDataSource
from kohort.testing import Broker
from kohort.testing.intercept import cut_off, cut_off_after, swallow
from kohort.testing.plugin import Kohort
from kohort.testing.ports import HeldPort

COLUMNS = StructType().add("key", BinaryType()).add("value", BinaryType())
QUICK = {"kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "2"}


def rows(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> pa.RecordBatch:
    arrays = [pa.array(column, pa.binary()) for column in (keys, values)]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value"])


def writer(kohort: Kohort, topic: str, **more: str) -> BatchArrowWriter:
    options = {"kafka.bootstrap.servers": kohort.bootstrap, "topic": topic, **QUICK}
    return BatchArrowWriter(
        {**options, **{f"kafka.{name.replace('_', '.')}": text for name, text in more.items()}}, COLUMNS
    )


def read_back(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign(
            [TopicPartition(TopicName(topic), Partition(n)) for n in consumer.partitions_for_topic(topic)]
        )
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(consumer.assignment())
        assert sum(ends.values()) == count
        found: list[ConsumerRecord] = []
        while len(found) < count:
            for records in consumer.poll(5_000).values():
                found += records
    return found


def test_rows_arrive_and_the_message_says_where(kohort: Kohort) -> None:
    topic = kohort.topic(partitions=3)
    keys = [str(number).encode() for number in range(300)]
    batches = [rows(keys[start : start + 100], keys[start : start + 100]) for start in (0, 100, 200)]

    written = writer(kohort, topic, compression_type="lz4", batch_size="700").write(iter(batches))

    assert pickle.loads(pickle.dumps(written)) == written
    found = read_back(kohort.bootstrap, topic, 300)
    assert sorted(record.key or b"" for record in found) == sorted(keys)
    assert all(record.partition == partition_for_key(record.key or b"", 3) for record in found)
    for number in range(3):
        here = [record for record in found if record.partition == number]
        place = TopicPartition(TopicName(topic), Partition(number))
        assert written.partitions[place] == WrittenRange(0, len(here) - 1, len(here))
        values = [int(record.value or b"") for record in here]
        assert values == sorted(values)
    assert f"to {topic}-0 (0 to" in str(written)


def test_a_stream_writer_takes_a_topic_column_headers_and_partitions(kohort: Kohort) -> None:
    topic = kohort.topic(partitions=2)
    header = StructType().add("key", StringType()).add("value", BinaryType())
    columns = (
        StructType().add("value", StringType()).add("topic", StringType()).add("partition", IntegerType())
    )
    columns = columns.add("headers", ArrayType(header))
    sink = StreamArrowWriter(
        {"kafka.bootstrap.servers": kohort.bootstrap, "checkpointlocation": "there"},
        columns,
    )
    headers = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["a", "b"], pa.string()),
            pa.array([topic, topic], pa.string()),
            pa.array([1, 0], pa.int32()),
            pa.array([[{"key": "h", "value": b"1"}], None], headers),
        ],
        names=["value", "topic", "partition", "headers"],
    )
    sink = pickle.loads(pickle.dumps(sink))
    sink.commit([sink.write(iter([batch])), None], 7)
    found = sorted(read_back(kohort.bootstrap, topic, 2), key=lambda record: record.partition)
    assert [(record.partition, record.value, list(record.headers)) for record in found] == [
        (0, b"b", []),
        (1, b"a", [("h", b"1")]),
    ]


def test_a_task_without_rows_reaches_nobody() -> None:
    sink = BatchArrowWriter({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "a"}, COLUMNS)
    assert sink.write(iter([rows([], [])])) == Written({})


def test_what_a_lost_answer_left_in_doubt_is_stored_once(kohort: Kohort) -> None:
    topic = kohort.topic(partitions=2)
    keys = [str(number).encode() for number in range(400)]
    rule = kohort.broker.intercept(cut_off_after, api="Produce", client=topic, times=1)
    kohort.broker.intercept(cut_off, api="Produce", client=topic, times=1)

    written = writer(kohort, topic, batch_size="600", client_id=topic).write(iter([rows(keys, keys)]))

    assert rule.seen
    assert sum(stretch.records for stretch in written.partitions.values()) == 400
    found = read_back(kohort.bootstrap, topic, 400)
    for number in range(2):
        values = [int(record.value or b"") for record in found if record.partition == number]
        assert values == sorted(values)


def test_batches_the_topic_finds_too_large_are_halved(kohort: Kohort) -> None:
    topic = kohort.topic(configs={"max.message.bytes": "2000"})
    values = [str(number).encode() * 20 for number in range(300)]
    written = writer(kohort, topic).write(iter([rows([None] * 300, values)]))
    assert list(written.partitions.values()) == [WrittenRange(0, 299, 300)]
    assert [record.value for record in read_back(kohort.bootstrap, topic, 300)] == values


def test_a_refusal_fails_the_task_with_the_brokers_words(kohort: Kohort) -> None:
    topic = kohort.topic(configs={"cleanup.policy": "compact"})
    with pytest.raises(
        WriteError, match=rf"cannot write to {kohort.bootstrap}: cannot write to {topic}-0"
    ) as failure:
        writer(kohort, topic).write(iter([rows([None], [b"v"])]))
    assert "without a key" in failure.value.hint


def test_a_broker_that_falls_silent_fails_the_task_in_time(kohort: Kohort) -> None:
    topic = kohort.topic()
    kohort.broker.intercept(swallow, api="Produce", client=topic)
    sink = writer(
        kohort, topic, delivery_timeout_ms="60", request_timeout_ms="50", linger_ms="0", client_id=topic
    )
    with pytest.raises(WriteError, match="not acknowledged within 60 ms") as failure:
        sink.write(iter([rows([b"k"], [b"v"])]))
    assert kohort.bootstrap in str(failure.value)
    assert "kafka.delivery.timeout.ms (60)" in failure.value.hint


def test_a_broker_that_is_not_there_is_named_with_the_setting() -> None:
    with HeldPort() as port:
        address = f"127.0.0.1:{port.number}"
        sink = BatchArrowWriter(
            {"kafka.bootstrap.servers": address, "topic": "a", "kafka.max.block.ms": "10", **QUICK}, COLUMNS
        )
        with pytest.raises(WriteError, match=f"cannot write to {address}: cannot reach a broker") as failure:
            sink.write(iter([rows([b"k"], [b"v"])]))
    assert "kafka.max.block.ms (10)" in failure.value.hint


def test_a_topic_that_does_not_exist_is_named() -> None:
    with Broker(configs={"auto.create.topics.enable": False}) as broker:
        options = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "topic": "nowhere",
            "kafka.max.block.ms": "20",
            **QUICK,
        }
        with pytest.raises(WriteError, match="nowhere"):
            BatchArrowWriter(options, COLUMNS).write(iter([rows([b"k"], [b"v"])]))


def test_an_error_of_the_rows_is_passed_on_and_the_rest_left_unsent(kohort: Kohort) -> None:
    topic = kohort.topic()

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows([b"k"], [b"v" * 500_000] * 1)
        raise RuntimeError("the job's own")

    with pytest.raises(RuntimeError, match="the job's own"):
        writer(kohort, topic).write(failing())


def test_a_topic_is_never_overwritten() -> None:
    source = KohortDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "a"})
    assert isinstance(source.writer(COLUMNS, overwrite=False), BatchArrowWriter)
    with pytest.raises(OptionError, match="cannot be overwritten"):
        source.writer(COLUMNS, overwrite=True)


def test_an_aborted_write_says_what_stays(caplog: pytest.LogCaptureFixture) -> None:
    place = TopicPartition(TopicName("orders"), Partition(2))
    sink = BatchArrowWriter({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "a"}, COLUMNS)
    sink.abort([None, Written({}), Written({place: WrittenRange(5, 9, 4)})])
    assert [record.getMessage() for record in caplog.records] == [
        "the write failed, but records of a finished task stay in the topic: 4 to orders-2 (5 to 9)"
    ]


def test_offsets_a_broker_did_not_tell_are_not_made_up() -> None:
    place = TopicPartition(TopicName("orders"), Partition(0))
    receipts = SinkReceipts()
    receipts.stored(place, -1, 5)
    assert receipts.written() == Written({place: WrittenRange(-1, -1, 5)})
    receipts.stored(place, 20, 3)
    assert receipts.written() == Written({place: WrittenRange(20, 22, 8)})
