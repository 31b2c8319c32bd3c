"""Produce: what a reply says, which partitions are found, what each acks means.

What Kafka answers in every version is recorded: ``tests/interop/scripts/produce.py``.
"""

import pytest
from tests.broker.asking import (
    T0,
    append,
    batch,
    create,
    fetch,
    metadata_request,
    produce,
    produce_request,
    records_of,
    values,
)
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchFields
from kohort.records.compression import Codec
from kohort.testing.broker import Broker
from kohort.wire.apis import ApiKey
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_producing_never_creates_a_topic(raw: Raw) -> None:
    produce(raw, "nowhere", batch("a"))
    assert (
        raw.send(metadata_request("nowhere"), 13).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_every_partition_asked_for_is_answered_and_good_ones_are_written(raw: Raw) -> None:
    create(raw, "t", 3)
    create(raw, "u")
    broken = bytearray(batch("bad"))
    broken[-1] ^= 1
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=2, records=batch("x")),
                    PartitionProduceData(index=0, records=bytes(broken)),
                    PartitionProduceData(index=7, records=batch("x")),
                ],
            ),
            TopicProduceData(name="none", partition_data=[PartitionProduceData(records=batch("x"))]),
            TopicProduceData(name="u", partition_data=[PartitionProduceData(records=batch("y"))]),
        ],
    )
    answered = [
        (topic.name, result.index, result.error_code)
        for topic in raw.send(request, 12).responses
        for result in topic.partition_responses
    ]
    assert answered == [
        ("t", 2, 0),
        ("t", 0, ErrorCode.CORRUPT_MESSAGE),
        ("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, 0),
    ]
    assert values(raw, "u") == ["y"]
    assert values(raw, "t") == []


# Acks


@pytest.mark.parametrize("acks", [2, -2, 100, -32768])
def test_other_acks_are_refused_for_every_partition_and_nothing_is_written(raw: Raw, acks: int) -> None:
    create(raw, "t", 2)
    results = raw.send(produce_request("t", batch("a"), batch("b"), acks=acks), 12).responses[0]
    codes = [result.error_code for result in results.partition_responses]
    assert codes == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert values(raw, "t") == []


def test_many_silent_produces_keep_their_order(raw: Raw) -> None:
    create(raw, "t")
    frames = b"".join(raw.frame(produce_request("t", batch(str(n)), acks=0), 9) for n in range(50))
    raw._waiting.clear()
    raw.send_bytes(frames)
    assert values(raw, "t") == [str(n) for n in range(50)]


def test_a_reply_that_was_due_before_the_failure_still_arrives(raw: Raw) -> None:
    first = raw.frame(metadata_request(), 13)
    second = raw.frame(produce_request("nowhere", batch("a"), acks=0), 12)
    raw.send_bytes(first + second)
    assert raw.take().brokers
    assert raw.is_closed()


# Transactions


def test_a_transactional_id_is_refused_as_a_wrong_state(raw: Raw) -> None:
    create(raw, "t")
    request = produce_request("t", batch("a"), transactional_id="tx")
    result = raw.send(request, 12).responses[0].partition_responses[0]
    assert result.error_code == ErrorCode.INVALID_TXN_STATE
    assert values(raw, "t") == []


def test_a_transactional_batch_without_a_transactional_id_is_not_authorized(raw: Raw) -> None:
    create(raw, "t")
    fields = BatchFields(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    result = produce(raw, "t", batch("a", fields=fields))
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert values(raw, "t") == []


# What is stored


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_stored_as_it_came(raw: Raw, codec: Codec) -> None:
    create(raw, "t")
    blob = batch("x" * 200, "y", fields=BatchFields(codec=codec))
    append(raw, "t", blob)
    stored = bytes(fetch(raw, "t").records)
    assert stored[21:] == blob[21:]  # everything the checksum covers
    assert [record.value for record in records_of(stored)] == [b"x" * 200, b"y"]


@pytest.mark.parametrize("claimed", [0, -1, 99])
def test_the_leader_epoch_in_a_batch_is_the_brokers_whatever_the_client_wrote(raw: Raw, claimed: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", fields=BatchFields(leader_epoch=claimed)))
    stored = bytes(fetch(raw, "t").records)
    assert int.from_bytes(stored[12:16], "big", signed=True) == 0


def test_append_time_is_told_where_the_topic_says_so(raw: Raw, broker: Broker) -> None:
    create(raw, "t", message_timestamp_type="LogAppendTime")
    broker.advance(5_000)
    result = produce(raw, "t", batch("a", "b", at=1))
    assert result.log_append_time_ms == T0 + 5_000
    stored = records_of(fetch(raw, "t").records)
    assert [record.timestamp for record in stored] == [T0 + 5_000] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_announced_for_old_librdkafka_alone_are_not_served(raw: Raw, version: int) -> None:
    raw.send_bytes(raw.frame_of(ApiKey.PRODUCE, version, bytes(10)))
    assert raw.is_closed()
