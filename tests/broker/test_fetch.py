"""Fetch without sessions: every version, positions, budgets, isolation, refusals.

What Kafka answers in every version is recorded: ``tests/interop/scripts/fetch.py``.
"""

import pytest
from tests.broker.asking import (
    BROKER,
    LARGE,
    alter,
    append,
    batch,
    create,
    fetch,
    fetch_request,
    part,
    produce_request,
    records_of,
)
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.wire.messages.fetch import FetchTopic


def values_in(result: Reply) -> list[str]:
    return [(record.value or b"").decode() for record in records_of(result.records)]


# Complete answers


def test_a_topic_named_in_two_places_is_one_entry(raw: Raw) -> None:
    create(raw, "t", 2)
    request = fetch_request({"t": [part(0)]})
    request.topics.append(FetchTopic(topic="t", partitions=[part(1)]))
    (topic,) = raw.send(request, 12).responses
    assert [each.partition_index for each in topic.partitions] == [0, 1]


# Budgets


def test_an_empty_partition_does_not_use_up_the_first_batch(raw: Raw) -> None:
    create(raw, "t", 2)
    raw.send(produce_request("t", batch("x" * 500), batch("y" * 500)), 12)
    request = fetch_request({"t": [part(0, offset=1), part(1)]}, max_bytes=1)
    empty, filled = raw.send(request, 12).responses[0].partitions
    assert len(empty.records) == 0
    assert values_in(filled) == ["y" * 500]


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_log_on_disk_too_sends_the_first_batch_whatever_the_limits(restart: Restart, limit: int) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("x" * 500), batch("y"))
    assert values_in(fetch(raw, "t", part(limit=limit))) == ["x" * 500]
    assert values_in(fetch(raw, "t", part(), max_bytes=limit)) == ["x" * 500]


def test_the_brokers_own_limit_caps_a_reply(raw: Raw) -> None:
    alter(raw, BROKER, "", fetch_max_bytes=1_024)
    create(raw, "t")
    append(raw, "t", *[batch("x" * 500) for _ in range(5)])
    assert len(values_in(fetch(raw, "t", part(limit=LARGE)))) == 1


# Epochs


def test_a_position_beyond_the_end_of_its_epoch_diverges_and_gets_no_records(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("a"))
    raw = restart()
    append(raw, "t", batch("b"), batch("c"))
    wanted = part(offset=2)
    wanted.last_fetched_epoch = 0
    reply = raw.send(fetch_request({"t": [wanted]}, wait=60_000), 12)
    result = reply.responses[0].partitions[0]
    assert (result.error_code, bytes(result.records)) == (0, b"")
    assert (result.diverging_epoch.epoch, result.diverging_epoch.end_offset) == (0, 1)
