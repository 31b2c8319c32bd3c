"""Produce: what a reply says, which partitions are found, what each acks means.

What Kafka answers in every version is recorded: ``tests/interop/scripts/produce.py``.
"""

import pytest
from tests.broker.asking import (
    append,
    batch,
    create,
    fetch,
    metadata_request,
    produce,
    produce_request,
    values,
)
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchFields


def test_producing_never_creates_a_topic(raw: Raw) -> None:
    produce(raw, "nowhere", batch("a"))
    assert (
        raw.send(metadata_request("nowhere"), 13).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


# Acks


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


@pytest.mark.parametrize("claimed", [0, -1, 99])
def test_the_leader_epoch_in_a_batch_is_the_brokers_whatever_the_client_wrote(raw: Raw, claimed: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", fields=BatchFields(leader_epoch=claimed)))
    stored = bytes(fetch(raw, "t").records)
    assert int.from_bytes(stored[12:16], "big", signed=True) == 0
