"""Fetch as a long poll: what is answered at once, what waits, and what wakes it."""

import time

import pytest
from tests.broker.asking import (
    append,
    batch,
    create,
    eventually,
    fetch_request,
    metadata,
    part,
    records_of,
    waiting_fetches,
)
from tests.broker.conftest import Connect
from tests.broker.raw import Raw, Reply

from kohort.broker import fetch as fetching
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

LONG = 60_000


def parked(reader: Raw, broker: Broker, **options: object) -> None:
    """Send a Fetch at the end of topic ``t`` and see that it waits."""
    reader.post(fetch_request({"t": [part(offset=1)]}, wait=LONG, **options), 12)  # type: ignore[arg-type] # named
    while waiting_fetches(broker) == 0:
        assert not reader.has_something(), "it was answered"


def taken(reader: Raw) -> Reply:
    return reader.take().responses[0].partitions[0]


def values_in(result: Reply) -> list[str]:
    return [(record.value or b"").decode() for record in records_of(result.records)]


@pytest.fixture
def reader(raw: Raw, connect: Connect) -> Raw:
    create(raw, "t", 2)
    append(raw, "t", batch("a"))
    return connect()


@pytest.mark.slow
def test_a_fetch_at_the_end_returns_after_its_wait_and_not_earlier(raw: Raw) -> None:
    create(raw, "t")
    start = time.monotonic()
    reply = raw.send(fetch_request({"t": [part()]}, wait=500), 12)
    assert time.monotonic() - start >= 0.49  # loops count in milliseconds
    result = reply.responses[0].partitions[0]
    assert (result.error_code, bytes(result.records)) == (0, b"")


def test_a_produce_makes_a_waiting_fetch_look_at_one_partition_however_many_it_waits_on(
    raw: Raw, reader: Raw, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(raw, "wide", 100)
    reader.post(fetch_request({"wide": [part(index) for index in range(100)]}, wait=LONG, min_bytes=200), 12)
    eventually(lambda: waiting_fetches(broker) == 1)
    looks: list[object] = []
    look = fetching._readable

    def counted(planned: fetching.Planned, terms: fetching.FetchTerms) -> int | None:
        looks.append(planned.key)
        return look(planned, terms)

    monkeypatch.setattr(fetching, "_readable", counted)
    append(raw, "wide", batch("a"), batch("b"))
    append(raw, "wide", batch("c" * 200))
    assert reader.take().responses[0].partitions[0].error_code == 0
    assert looks[:3] == [("wide", 0)] * 3


def test_a_produce_in_the_same_breath_as_the_fetch_is_not_missed(raw: Raw, reader: Raw) -> None:
    for offset in range(1, 40):
        reader.post(fetch_request({"t": [part(offset=offset)]}, wait=LONG), 12)
        append(raw, "t", batch(str(offset)))
        assert values_in(taken(reader)) == [str(offset)]


def test_a_produce_to_another_partition_does_not(raw: Raw, reader: Raw, broker: Broker) -> None:
    create(raw, "other")
    parked(reader, broker)
    append(raw, "other", batch("b"))
    assert waiting_fetches(broker) == 1
    assert not reader.has_something()


def test_too_few_bytes_do_not_wake_and_enough_do(raw: Raw, reader: Raw, broker: Broker) -> None:
    size = len(batch("b"))
    assert reader.send(fetch_request({"t": [part()]}), 12).responses  # now its place is known to the byte
    parked(reader, broker, min_bytes=2 * size)
    append(raw, "t", batch("b"))
    assert waiting_fetches(broker) == 1
    append(raw, "t", batch("c"))
    assert values_in(taken(reader)) == ["b", "c"]


def test_a_place_nobody_has_read_up_to_is_known_to_within_an_index_interval(
    raw: Raw, connect: Connect, broker: Broker
) -> None:
    create(raw, "t")
    for _ in range(30):
        append(raw, "t", batch("x" * 1_000))
    fresh = connect()
    fresh.post(fetch_request({"t": [part(offset=30)]}, wait=LONG, min_bytes=10_000), 12)
    eventually(lambda: waiting_fetches(broker) == 1)
    append(raw, "t", batch("x" * 1_000))  # with 4 KB before it, which are counted, this is not enough
    assert waiting_fetches(broker) == 1
    append(raw, "t", batch("y" * 10_000))
    assert taken(fresh).error_code == 0


def test_bytes_of_all_partitions_count_together(raw: Raw, connect: Connect, broker: Broker) -> None:
    create(raw, "t", 1)
    create(raw, "u", 1)
    reader = connect()
    request = fetch_request({"t": [part()], "u": [part()]}, wait=LONG, min_bytes=len(batch("x")) + 1)
    reader.post(request, 12)
    append(raw, "t", batch("x"))
    append(raw, "u", batch("y"))
    reply = reader.take()
    assert [values_in(topic.partitions[0]) for topic in reply.responses] == [["x"], ["y"]]


def test_a_deleted_topic_wakes_whoever_waits_for_it(raw: Raw, reader: Raw, broker: Broker) -> None:
    parked(reader, broker)
    raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    assert taken(reader).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleted_records_do_not_strand_a_reader_at_the_end(raw: Raw, reader: Raw, broker: Broker) -> None:
    parked(reader, broker)
    part_to_cut = DeleteRecordsPartition(partition_index=0, offset=-1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part_to_cut])])
    assert raw.send(request, 2).topics[0].partitions[0].low_watermark == 1
    append(raw, "t", batch("b"))
    result = taken(reader)
    assert (values_in(result), result.log_start_offset) == (["b"], 1)


def test_bytes_that_are_there_are_not_waited_for(raw: Raw, reader: Raw) -> None:
    assert raw.send(fetch_request({"t": [part()]}, wait=LONG), 12).responses
    request = fetch_request({"t": [part(1), part(0)]}, wait=LONG)
    assert raw.send(request, 12).responses


def test_a_waiting_fetch_stops_only_its_own_connection(raw: Raw, reader: Raw, broker: Broker) -> None:
    parked(reader, broker)
    assert metadata(raw, "t").topics[0].error_code == 0
    reader.post(fetch_request({"t": [part()]}), 12)  # behind the one that waits
    assert metadata(raw, "t").topics[0].error_code == 0
    assert not reader.has_something()
    append(raw, "t", batch("b"))
    assert values_in(taken(reader)) == ["b"]
    assert values_in(taken(reader)) == ["a", "b"]


def test_a_reader_that_hangs_up_is_forgotten(raw: Raw, reader: Raw, broker: Broker) -> None:
    parked(reader, broker)
    reader.close()
    while waiting_fetches(broker):
        assert metadata(raw).brokers  # gives the broker a turn
