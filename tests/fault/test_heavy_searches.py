"""Records looked up by time in batches that take seconds to look at: others are answered meanwhile."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.broker.asking import T0, append, batch, create, metadata, offset_at
from tests.broker.raw import Raw, Reply
from tests.fault.gate import Gate

from kohort.log.files import search
from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchFields, NewRecord, Record, build_batch, read_records
from kohort.records.compression import Codec
from kohort.records.produced import AT_ONCE_BYTES, AT_ONCE_RECORDS
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

COUNT = AT_ONCE_RECORDS + 1
MANY = build_batch([NewRecord(T0 + n, b"k", b"") for n in range(COUNT)], BatchFields(codec=Codec.ZSTD))
MAX_TIMESTAMP = -3


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()

    def read(*where: Any, limit: int) -> list[Record]:  # noqa: ANN401 - handed on as they are
        if limit > AT_ONCE_BYTES:
            gate.enter()
        return read_records(*where, limit=limit)

    monkeypatch.setattr(search, "read_records", read)
    yield gate
    gate.open()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker, Raw(broker.bootstrap) as raw:
        create(raw, "t", 2)
        append(raw, "t", MANY)
        yield broker


def at(*timestamps: int) -> ListOffsetsRequest:
    """A request for so many partitions."""
    partitions = [
        ListOffsetsPartition(partition_index=n, timestamp=each) for n, each in enumerate(timestamps)
    ]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def results(reply: Reply) -> list[tuple[int, int]]:
    return [(part.error_code, part.offset) for part in reply.topics[0].partitions]


@pytest.mark.parametrize(("timestamp", "offset"), [(T0 + 7, 7), (MAX_TIMESTAMP, COUNT - 1)])
def test_another_client_is_answered_while_a_batch_is_searched(
    broker: Broker, gate: Gate, timestamp: int, offset: int
) -> None:
    with Raw(broker.bootstrap) as reader, Raw(broker.bootstrap) as other:
        reader.post(at(timestamp, -1), 11)
        gate.await_somebody()
        assert metadata(other).brokers
        assert offset_at(other, "t", -1).offset == COUNT
        assert not reader.has_something()
        gate.open()
        assert results(reader.take()) == [(0, offset), (0, 0)]


def test_a_topic_that_goes_and_comes_again_meanwhile_is_not_answered_for(broker: Broker, gate: Gate) -> None:
    with Raw(broker.bootstrap) as reader, Raw(broker.bootstrap) as other:
        reader.post(at(T0 + 7, -1), 11)
        gate.await_somebody()
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        create(other, "t", 2)
        gate.open()
        assert results(reader.take()) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (0, 0)]


def test_a_topic_that_goes_meanwhile_is_unknown(broker: Broker, gate: Gate) -> None:
    with Raw(broker.bootstrap) as reader, Raw(broker.bootstrap) as other:
        reader.post(at(T0 + 7), 11)
        gate.await_somebody()
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        gate.open()
        assert results(reader.take()) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_a_request_full_of_light_searches_lets_others_in_between(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def read(*where: Any, limit: int) -> list[Record]:  # noqa: ANN401 - handed on as they are
        seen.append("batch")
        asyncio.get_running_loop().call_soon(seen.append, "others")
        return read_records(*where, limit=limit)

    first = ListOffsetsPartition(partition_index=0, timestamp=T0)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[first]) for name in ("one", "two")]
    )
    with Raw(broker.bootstrap) as reader:
        for name in ("one", "two"):
            create(reader, name, 1)
            append(reader, name, batch("x"))
        monkeypatch.setattr(search, "read_records", read)
        reader.send(request, 11)
    assert seen == ["batch", "others"] * 2
