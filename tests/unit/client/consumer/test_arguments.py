"""What a consumer takes for a partition, an offset, a time; and what it says to everything else."""

import asyncio
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kohort.client.arguments import (
    as_limit,
    as_millis,
    as_offset,
    as_offsets,
    as_partition,
    as_partitions,
    as_times,
    as_topics,
)
from kohort.client.columnar.options import check_columns
from kohort.client.consumer import AsyncConsumer, Consumer
from kohort.client.errors import ConsumerClosedError
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.testing.plugin import Kohort

P0 = TopicPartition(TopicName("t"), Partition(0))


def test_a_pair_is_a_partition_and_numbers_of_other_libraries_are_numbers() -> None:
    assert as_partition(("t", 0)) == as_partition(P0) == P0
    assert as_partitions([("t", int(np.int32(0)))]) == [P0]
    moved = as_offset(np.int64(7))  # type: ignore[arg-type]  # typed as int by nobody, and yet one
    assert moved == OffsetAndMetadata(7)
    assert type(moved.offset) is int
    assert as_offsets({("t", 0): 5, P0: OffsetAndMetadata(6, 1, "note")}) == {
        P0: OffsetAndMetadata(6, 1, "note")
    }
    assert as_times({("t", 0): 5}) == {P0: 5}
    assert as_limit(None, 500) == 500
    assert as_limit(3, 500) == 3
    assert as_millis(float("inf")) == float("inf")
    assert as_topics("orders") == ["orders"]


@pytest.mark.parametrize(
    ("call", "given", "says"),
    [
        (as_partition, "orders", "pair of topic and number"),
        (as_partition, ("orders", "0"), "pair of topic and number"),
        (as_partition, [P0], r"\*partitions"),
        (as_partition, None, "pair of topic and number"),
        (as_partitions, "orders", "list of pairs"),
        (as_partitions, P0, "list of pairs"),
        (as_offset, "5", "whole number"),
        (as_offset, 5.0, "whole number"),
        (as_offset, None, "whole number"),
        (as_offset, OffsetAndMetadata(5, "note"), "metadata=…"),  # type: ignore[arg-type]  # Kafka's order
        (as_offset, OffsetAndMetadata(5, metadata=b"note"), "text"),  # type: ignore[arg-type]  # on purpose
        (as_offsets, [P0], "dict from partitions to offsets"),
        (as_offsets, {"orders": 5}, "pair of topic and number"),
        (as_offsets, {P0: (5, "note")}, "whole number"),
        (as_times, [P0], "dict from partitions to times"),
        (as_times, {P0: 1.5}, "milliseconds since 1970"),
        (as_millis, None, "number of milliseconds"),
        (as_millis, "5", "number of milliseconds"),
        (lambda count: as_limit(count, 500), "5", "whole number"),
        (lambda count: as_limit(count, 500), Fraction(1, 2), "whole number"),
        (as_topics, [b"orders"], "a name is text"),
        (as_topics, ["orders", None], "a name is text"),
    ],
)
def test_a_wrong_type_is_refused_with_what_to_write(
    call: Callable[[Any], object],
    given: object,
    says: str,
) -> None:
    with pytest.raises(TypeError, match=says):
        call(given)


@pytest.mark.parametrize(
    ("call", "given", "says"),
    [
        (as_partition, ("t", -1), "negative"),
        (as_offset, 2**63, "the largest is"),
        (as_times, {P0: -1}, "negative"),
        (as_millis, -1, "float"),
        (as_millis, float("nan"), "float"),
        (lambda count: as_limit(count, 500), 0, "at most 0"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(
    call: Callable[[Any], object],
    given: object,
    says: str,
) -> None:
    with pytest.raises(KohortError, match=says):
        call(given)


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_a_consumer_is_made_with_names_of_topics_and_settings_by_name(
    kind: type[Consumer | AsyncConsumer],
) -> None:
    for given in (["orders"], {"group.id": "billing"}, b"orders", None):
        with pytest.raises(TypeError, match="settings by name"):
            kind(given)  # type: ignore[arg-type]  # on purpose


def test_who_cannot_hear_of_rebalances_is_no_listener() -> None:
    class Deaf:
        def on_partitions_revoked(self, partitions: object) -> None: ...

    consumer = Consumer(group_id="g")
    for listener in (print, Deaf()):
        with pytest.raises(TypeError, match="on_partitions_"):
            consumer.subscribe(["t"], listener=listener)  # type: ignore[arg-type]  # on purpose
    assert consumer.subscription() == set()


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_a_consumer_shows_its_group_and_what_it_reads(kind: type[Consumer | AsyncConsumer]) -> None:
    name = kind.__name__
    assert repr(kind()) == f"<{name} of no group: by nothing reads nothing>"
    consumer = kind(group_id="g")
    consumer.assign([("t", 0), ("t", 1)])
    assert repr(consumer) == f"<{name} of 'g': by assign(partitions) reads t-0, t-1>"


def test_a_name_alone_is_no_list_of_columns() -> None:
    with pytest.raises(TypeError, match=r"\['value'\]"):
        check_columns("value")
    assert check_columns(iter(["value", "key"])) == ("value", "key")


def test_a_consumer_on_another_loop_than_its_own_says_so(kohort: Kohort) -> None:
    consumer = AsyncConsumer(bootstrap_servers=kohort.bootstrap)
    topic = kohort.topic()

    async def begin() -> None:
        await consumer.start()
        consumer.assign([(topic, 0)])

    with asyncio.Runner() as first:
        first.run(begin())
        with asyncio.Runner() as second, pytest.raises(ConsumerClosedError, match="another event loop"):
            second.run(consumer.poll(10_000))
        first.run(consumer.close())


def test_a_wakeup_before_the_start_says_what_is_missing() -> None:
    with pytest.raises(ConsumerClosedError, match="not started"):
        Consumer().wakeup()
