"""CreatePartitions: more partitions for a topic that is in use.

What Kafka answers in every version is recorded: ``tests/interop/scripts/topics.py``.
"""

import pytest
from tests.broker.asking import append, batch, create, fetch, metadata, part, produce_request, values
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

VERSIONS = range(4)


def more(count: int, name: str = "t", assigned: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assignments = None
    if assigned is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def ask(
    raw: Raw, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[Reply]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1_000, validate_only=validate_only)
    results: list[Reply] = raw.send(request, version).results
    return results


def count(raw: Raw, name: str = "t") -> int:
    return len(metadata(raw, name).topics[0].partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_new_total_is_in_force_when_the_reply_is_there(raw: Raw, version: int) -> None:
    create(raw, "t", 2)
    append(raw, "t", batch("kept"))
    (result,) = ask(raw, more(5), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert count(raw) == 5
    results = raw.send(produce_request("t", *[batch("x")] * 5), 12).responses[0].partition_responses
    assert [each.error_code for each in results] == [0] * 5
    assert fetch(raw, "t", part(4)).high_watermark == 1
    assert values(raw, "t") == ["kept", "x"]


@pytest.mark.parametrize("total", [10_001, 2**31 - 1])
def test_more_than_ten_thousand_are_too_many(raw: Raw, total: int) -> None:
    create(raw, "t")
    assert ask(raw, more(total))[0].error_code == ErrorCode.INVALID_PARTITIONS


def test_new_partitions_survive_a_restart(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    ask(raw, more(3))
    assert count(restart()) == 3


def test_two_clients_that_grow_one_topic_at_once_end_with_the_larger_total(raw: Raw, broker: Broker) -> None:
    create(raw, "t")
    with Raw(broker.bootstrap) as other:
        raw.post(CreatePartitionsRequest(topics=[more(3)]), 3)
        other.post(CreatePartitionsRequest(topics=[more(6)]), 3)
        codes = [raw.take().results[0].error_code, other.take().results[0].error_code]
    assert codes[1] == 0
    assert codes[0] in (0, ErrorCode.INVALID_PARTITIONS)
    assert count(raw) == 6
    results = raw.send(produce_request("t", *[batch("x")] * 6), 12).responses[0].partition_responses
    assert [each.error_code for each in results] == [0] * 6
