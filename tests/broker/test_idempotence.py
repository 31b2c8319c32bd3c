"""Idempotent producers: five batches are remembered, gaps and old epochs are refused. And InitProducerId."""

import pytest
from tests.broker.asking import BROKER, alter, batch, create, produce, values
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchFields
from kohort.testing.broker import Broker
from kohort.wire.messages.init_producer_id import InitProducerIdRequest

LAST_SEQUENCE = 2**31 - 1


def numbered(raw: Raw, sequence: int, *content: str, producer: int = 9, epoch: int = 0) -> Reply:
    """Append records with sequence numbers from ``sequence`` on."""
    fields = BatchFields(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return produce(raw, "t", batch(*(content or (str(sequence),)), fields=fields))


@pytest.fixture
def raw(raw: Raw) -> Raw:
    create(raw, "t")
    return raw


def test_consecutive_sequences_are_appended(raw: Raw) -> None:
    offsets = [numbered(raw, sequence, "a", "b").base_offset for sequence in (0, 2, 4)]
    assert offsets == [0, 2, 4]


def test_a_repeated_batch_succeeds_with_its_first_offset_and_is_not_written_again(raw: Raw) -> None:
    for sequence in range(5):
        numbered(raw, sequence)
    for sequence in range(5):
        again = numbered(raw, sequence)
        assert (again.error_code, again.base_offset) == (0, sequence)
    assert values(raw, "t") == ["0", "1", "2", "3", "4"]


def test_a_repetition_older_than_five_batches_is_out_of_order(raw: Raw) -> None:
    for sequence in range(6):
        numbered(raw, sequence)
    assert numbered(raw, 0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert numbered(raw, 1).error_code == 0


def test_the_same_first_sequence_with_another_length_is_no_repetition(raw: Raw) -> None:
    numbered(raw, 0, "a", "b")
    assert numbered(raw, 0, "a").error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert numbered(raw, 0, "a", "b", "c").error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order_and_writes_nothing(raw: Raw) -> None:
    numbered(raw, 0)
    assert numbered(raw, 2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert numbered(raw, 1).base_offset == 1


@pytest.mark.parametrize("sequence", [0, 7, LAST_SEQUENCE])
def test_a_producer_nobody_knows_may_begin_anywhere(raw: Raw, sequence: int) -> None:
    assert numbered(raw, sequence, "x").error_code == 0


def test_sequences_wrap_to_zero(raw: Raw) -> None:
    numbered(raw, LAST_SEQUENCE - 1, "a")
    assert numbered(raw, LAST_SEQUENCE, "b").error_code == 0
    assert numbered(raw, 0, "c").base_offset == 2


def test_sequences_wrap_inside_a_batch(raw: Raw) -> None:
    numbered(raw, LAST_SEQUENCE, "a", "b", "c")
    again = numbered(raw, LAST_SEQUENCE, "a", "b", "c")
    assert (again.error_code, again.base_offset) == (0, 0)
    assert numbered(raw, 2, "d").base_offset == 3


def test_an_older_epoch_is_fenced_on_produce_with_its_old_code(raw: Raw) -> None:
    numbered(raw, 0, epoch=3)
    assert numbered(raw, 1, epoch=2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_begins_at_zero(raw: Raw) -> None:
    numbered(raw, 0)
    assert numbered(raw, 1, epoch=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert numbered(raw, 0, "new", epoch=1).base_offset == 1
    assert numbered(raw, 0, "new", epoch=1).base_offset == 1


def test_producers_and_partitions_do_not_mix(raw: Raw) -> None:
    create(raw, "u")
    assert numbered(raw, 0, producer=1).error_code == 0
    assert numbered(raw, 5, producer=2).error_code == 0
    fields = BatchFields(producer_id=1, producer_epoch=0, base_sequence=3)
    assert produce(raw, "u", batch("a", fields=fields)).error_code == 0


def test_a_silent_producer_is_forgotten_and_may_begin_anywhere_again(raw: Raw, broker: Broker) -> None:
    alter(raw, BROKER, "", producer_id_expiration_ms=60_000, log_retention_check_interval_ms=1_000)
    numbered(raw, 0)
    assert numbered(raw, 5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    broker.advance(300_000)  # the interval of the next check was set before it was altered
    assert numbered(raw, 5, "much later").error_code == 0


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
def test_every_call_without_a_transactional_id_gives_a_fresh_id_with_epoch_0(raw: Raw, version: int) -> None:
    replies = [init(raw, version) for _ in range(5)]
    assert [(reply.error_code, reply.producer_epoch) for reply in replies] == [(0, 0)] * 5
    assert len({reply.producer_id for reply in replies}) == 5


@pytest.mark.parametrize("timeout", [0, -1, 2**31 - 1])
def test_the_timeout_does_not_matter_without_a_transactional_id(raw: Raw, timeout: int) -> None:
    assert init(raw, 4, transaction_timeout_ms=timeout).error_code == 0


def test_an_id_that_is_presented_again_is_replaced_by_a_fresh_one(raw: Raw) -> None:
    first = init(raw, 4)
    second = init(raw, 4, producer_id=first.producer_id, producer_epoch=0)
    assert (second.error_code, second.producer_epoch) == (0, 0)
    assert second.producer_id != first.producer_id


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(("producer", "epoch"), [(5, -1), (-1, 3)])
def test_an_id_without_an_epoch_or_the_reverse_is_invalid(
    raw: Raw, version: int, producer: int, epoch: int
) -> None:
    reply = init(raw, version, producer_id=producer, producer_epoch=epoch)
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert (reply.producer_id, reply.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_transactional_id_is_invalid(raw: Raw, version: int) -> None:
    assert init(raw, version, transactional_id="").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_id_is_refused_for_good(raw: Raw, version: int) -> None:
    reply = init(raw, version, transactional_id="tx", transaction_timeout_ms=60_000)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (reply.producer_id, reply.producer_epoch) == (-1, -1)


def test_ids_that_were_given_out_work_on_produce(raw: Raw) -> None:
    given = init(raw, 5)
    assert numbered(raw, 0, producer=given.producer_id, epoch=given.producer_epoch).error_code == 0


def test_many_ids_at_once_are_all_different(raw: Raw) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    raw.send_bytes(b"".join(raw.frame(request, 4) for _ in range(2_500)))
    assert len({raw.take().producer_id for _ in range(2_500)}) == 2_500
