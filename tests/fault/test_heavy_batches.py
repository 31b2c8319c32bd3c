"""Produce requests that take seconds to look at: others are answered meanwhile, nothing is let through."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.broker.asking import T0, batch, create, metadata, offset_at, produce, produce_request, values
from tests.broker.raw import Raw, Reply
from tests.fault.gate import Gate

from kohort.broker.handlers import produce as handler
from kohort.model.errors import ErrorCode
from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec
from kohort.records.produced import AT_ONCE_BYTES, AT_ONCE_RECORDS, Produced, ProduceRules, check_produced
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

ZSTD = BatchFields(codec=Codec.ZSTD)
MANY = build_batch([NewRecord(T0, b"k", b"")] * (AT_ONCE_RECORDS + 1), ZSTD)
BOMB = build_batch([NewRecord(T0, b"k", bytes(AT_ONCE_BYTES))], ZSTD)
LAST = AT_ONCE_RECORDS + 1  # the offset behind MANY


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()

    def check(records: Buffer, rules: ProduceRules) -> Produced:
        if not rules.at_once:
            gate.enter()
        return check_produced(records, rules)

    monkeypatch.setattr(handler, "check_produced", check)
    yield gate
    gate.open()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker, Raw(broker.bootstrap) as raw:
        create(raw, "t", 2)
        yield broker


def results(reply: Reply) -> list[tuple[int, int]]:
    (topic,) = reply.responses
    return [(part.error_code, part.base_offset) for part in topic.partition_responses]


@pytest.mark.parametrize("blob", [MANY, BOMB], ids=["many records", "many bytes"])
def test_another_client_is_answered_while_a_batch_is_looked_at(
    broker: Broker, gate: Gate, blob: bytes
) -> None:
    with Raw(broker.bootstrap) as writer, Raw(broker.bootstrap) as other:
        writer.post(produce_request("t", blob), 12)
        gate.await_somebody()
        assert metadata(other).brokers
        assert produce(other, "t", batch("small")).base_offset == 0
        assert not writer.has_something()
        gate.open()
        assert results(writer.take()) == [(0, 1)]


def test_what_a_client_sends_behind_such_a_batch_is_stored_behind_it(broker: Broker, gate: Gate) -> None:
    with Raw(broker.bootstrap) as writer:
        writer.post(produce_request("t", MANY), 12)
        writer.post(produce_request("t", batch("small")), 12)
        gate.await_somebody()
        gate.open()
        assert [results(writer.take()) for _ in range(2)] == [[(0, 0)], [(0, LAST)]]


def test_the_sequence_of_a_numbered_producer_holds_across_such_a_batch(broker: Broker) -> None:
    numbered = ZSTD._replace(producer_id=7, producer_epoch=0, base_sequence=0)
    first = build_batch([NewRecord(T0, b"k", b"")] * LAST, numbered)
    second = batch("next", fields=numbered._replace(base_sequence=LAST))
    with Raw(broker.bootstrap) as writer:
        for blob in (first, second, first, second):  # sent again: known, not stored again
            writer.post(produce_request("t", blob), 12)
        assert [results(writer.take()) for _ in range(4)] == [[(0, 0)], [(0, LAST)]] * 2


def test_two_of_them_are_looked_at_one_after_the_other(broker: Broker, gate: Gate) -> None:
    with Raw(broker.bootstrap) as one, Raw(broker.bootstrap) as two:
        for writer in (one, two):
            writer.post(produce_request("t", MANY), 12)
        gate.await_somebody()
        gate.open()
        assert sorted(results(one.take()) + results(two.take())) == [(0, 0), (0, LAST)]


def test_a_request_may_bring_such_a_batch_among_others(broker: Broker) -> None:
    with Raw(broker.bootstrap) as writer:
        assert results(writer.send(produce_request("t", MANY, batch("small")), 12)) == [(0, 0), (0, 0)]
        assert results(writer.send(produce_request("t", batch("last"), MANY), 12)) == [(0, LAST), (0, 1)]
        assert values(writer, "t", LAST) == ["last"]


def test_such_a_batch_is_refused_for_what_is_wrong_with_it(broker: Broker) -> None:
    with Raw(broker.bootstrap) as writer:
        create(writer, "compacted", 1, cleanup_policy="compact")
        keyless = build_batch([NewRecord(T0, None, b"")] * LAST, ZSTD)
        refused = produce(writer, "compacted", keyless)
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert len(refused.record_errors) == 1_000
        assert produce(writer, "compacted", MANY).base_offset == 0


def test_without_acknowledgements_such_a_batch_is_stored_before_what_follows_it(broker: Broker) -> None:
    with Raw(broker.bootstrap) as writer:
        writer.post_unanswered(produce_request("t", MANY, acks=0), 12)
        assert produce(writer, "t", batch("small")).base_offset == LAST


def test_a_client_that_hangs_up_meanwhile_has_its_batch_stored(broker: Broker, gate: Gate) -> None:
    with Raw(broker.bootstrap) as other:
        with Raw(broker.bootstrap) as writer:
            writer.post(produce_request("t", MANY), 12)
            gate.await_somebody()
        gate.open()
        assert produce(other, "t", MANY).base_offset == LAST


def test_a_topic_that_goes_and_comes_again_meanwhile_gets_none_of_its_records(
    broker: Broker, gate: Gate
) -> None:
    with Raw(broker.bootstrap) as writer, Raw(broker.bootstrap) as other:
        writer.post(produce_request("t", batch("small"), MANY), 12)
        gate.await_somebody()
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        create(other, "t", 2)
        gate.open()
        assert results(writer.take()) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)] * 2
        assert offset_at(other, "t", -1).offset == 0


def test_a_request_full_of_light_batches_lets_others_in_between(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def check(records: Buffer, rules: ProduceRules) -> Produced:
        seen.append("batch")
        asyncio.get_running_loop().call_soon(seen.append, "others")
        return check_produced(records, rules)

    monkeypatch.setattr(handler, "check_produced", check)
    light = batch(*["x" * 90] * (AT_ONCE_RECORDS - 1))  # two of them are more than is looked at in one go
    with Raw(broker.bootstrap) as writer:
        assert results(writer.send(produce_request("t", light, light), 12)) == [(0, 0), (0, 0)]
    assert seen == ["batch", "others"] * 2
