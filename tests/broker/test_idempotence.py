"""Idempotent producers: five batches are remembered, gaps and old epochs are refused. And InitProducerId.

What Kafka answers in every version is recorded: ``tests/interop/scripts/sequences.py``.
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.broker.asking import BROKER, alter, batch, create, produce
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.broker.handlers import describe_producers
from kohort.broker.heavy_work import IN_A_SLICE
from kohort.log.producers import ProducerState
from kohort.model.errors import ErrorCode
from kohort.model.ids import ProducerId
from kohort.records.batch import BatchFields
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest


def numbered(raw: Raw, sequence: int, *content: str, producer: int = 9, epoch: int = 0) -> Reply:
    """Append records with sequence numbers from ``sequence`` on."""
    fields = BatchFields(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return produce(raw, "t", batch(*(content or (str(sequence),)), fields=fields))


@pytest.fixture
def raw(raw: Raw) -> Raw:
    create(raw, "t")
    return raw


def test_a_silent_producer_is_forgotten_and_may_begin_anywhere_again(raw: Raw, broker: Broker) -> None:
    alter(raw, BROKER, "", producer_id_expiration_ms=60_000, log_retention_check_interval_ms=1_000)
    numbered(raw, 0)
    assert numbered(raw, 5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    broker.advance(300_000)  # the interval of the next check was set before it was altered
    assert numbered(raw, 5, "much later").error_code == 0


def test_a_partition_that_is_named_again_is_described_once(raw: Raw) -> None:
    numbered(raw, 0)
    asked = TopicRequest(name="t", partition_indexes=[0, 0])
    reply = raw.send(DescribeProducersRequest(topics=[asked, asked]), 0)
    assert [[part.active_producers[0].producer_id for part in one.partitions] for one in reply.topics] == [
        [9],
        [],
    ]


# Across a restart


def test_a_restart_remembers_sequences(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    numbered(raw, 0)
    numbered(raw, 1)
    raw = restart()
    assert numbered(raw, 1).base_offset == 1
    assert numbered(raw, 5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert numbered(raw, 2).base_offset == 2


def test_a_restart_hands_out_no_producer_id_twice(restart: Restart) -> None:
    first = {init(restart(), 4).producer_id for _ in range(3)}
    assert len(first) == 3


# InitProducerId

VERSIONS = range(6)


def init(raw: Raw, version: int, **fields: object) -> Reply:
    given: dict[str, object] = {"transactional_id": None, "transaction_timeout_ms": 0, **fields}
    return raw.send(InitProducerIdRequest(**given), version)  # type: ignore[arg-type] # fields by name


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_id_is_refused_for_good(raw: Raw, version: int) -> None:
    reply = init(raw, version, transactional_id="tx", transaction_timeout_ms=60_000)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (reply.producer_id, reply.producer_epoch) == (-1, -1)


def test_many_ids_at_once_are_all_different(raw: Raw) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    raw.send_bytes(b"".join(raw.frame(request, 4) for _ in range(2_500)))
    assert len({raw.take().producer_id for _ in range(2_500)}) == 2_500


def test_many_producers_of_a_partition_are_described_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {ProducerId(number): ProducerState(epoch=0) for number in range(IN_A_SLICE)}
    log = SimpleNamespace(producers=SimpleNamespace(active=many.items))
    monkeypatch.setattr(describe_producers, "led", lambda *_: log)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    steps = describe_producers._answer(cast(Any, SimpleNamespace(topics={})), request)
    assert len(list(steps)) >= 2
