"""Fetch sessions on the wire: opening, going on, changing, closing, and mistakes.

What Kafka answers in every version is recorded: ``tests/interop/scripts/fetch_sessions.py``.
"""

from tests.broker.asking import append, batch, create, fetch_request, part, produce_request, records_of
from tests.broker.conftest import Connect
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.fetch import FetchPartition, FetchRequest

PartitionsByTopic = dict[str | bytes, list[FetchPartition]]


def partitions(reply: Reply) -> list[tuple[str, int]]:
    return [(topic.topic, each.partition_index) for topic in reply.responses for each in topic.partitions]


def opened(raw: Raw, parts: PartitionsByTopic, version: int = 12) -> int:
    """Open a session and return its id."""
    reply = raw.send(fetch_request(parts, session=(0, 0)), version)
    assert reply.error_code == 0
    assert reply.session_id > 0
    session_id: int = reply.session_id
    return session_id


def going_on(session: int, epoch: int, parts: PartitionsByTopic | None = None, wait: int = 0) -> FetchRequest:
    return fetch_request(parts or {}, session=(session, epoch), wait=wait)


def values_in(reply: Reply) -> list[str]:
    return [
        (record.value or b"").decode()
        for topic in reply.responses
        for each in topic.partitions
        for record in records_of(each.records)
    ]


def test_a_new_high_watermark_is_news_even_without_records(raw: Raw) -> None:
    create(raw, "t")
    session = opened(raw, {"t": [part()]})
    append(raw, "t", batch("a"))
    reply = raw.send(going_on(session, 1, {"t": [part(offset=1)]}), 12)
    (result,) = reply.responses[0].partitions
    assert (result.high_watermark, bytes(result.records)) == (1, b"")


def test_a_new_log_start_is_news(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    session = opened(raw, {"t": [part(offset=1)]})
    cut = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    raw.send(DeleteRecordsRequest(topics=[cut]), 2)
    reply = raw.send(going_on(session, 1), 12)
    assert reply.responses[0].partitions[0].log_start_offset == 1
    assert raw.send(going_on(session, 2), 12).responses == []


def test_a_partition_that_recovers_from_an_error_is_news(raw: Raw) -> None:
    session = opened(raw, {"t": [part()]})
    create(raw, "t")
    reply = raw.send(going_on(session, 1), 12)
    assert (partitions(reply), reply.responses[0].partitions[0].error_code) == ([("t", 0)], 0)


def test_an_incremental_fetch_waits_for_all_its_partitions(raw: Raw, connect: Connect) -> None:
    create(raw, "t", 2)
    reader = connect()
    session = opened(reader, {"t": [part(0), part(1)]})
    reader.post(going_on(session, 1, wait=60_000), 12)
    append(raw, "t", batch("a"))
    assert values_in(reader.take()) == ["a"]


def test_a_session_belongs_to_no_connection(raw: Raw, connect: Connect) -> None:
    create(raw, "t")
    session = opened(raw, {"t": [part()]})
    raw.close()
    assert connect().send(going_on(session, 1), 12).session_id == session


def test_a_small_budget_serves_each_partition_in_its_turn(raw: Raw) -> None:
    create(raw, "t", 3)
    raw.send(produce_request("t", batch("0"), batch("1"), batch("2")), 12)
    request = fetch_request({"t": [part(n) for n in range(3)]}, session=(0, 0), max_bytes=1)
    reply = raw.send(request, 12)
    seen = values_in(reply)
    for epoch in (1, 2):
        request = going_on(reply.session_id, epoch)
        request.max_bytes = 1
        seen += values_in(raw.send(request, 12))
    assert sorted(seen) == ["0", "1", "2"]


def test_a_topic_made_again_under_its_name_is_unknown_by_its_old_id(raw: Raw) -> None:
    topic_id = create(raw, "t")
    session = opened(raw, {topic_id: [part()]}, version=13)
    raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    create(raw, "t")
    (topic,) = raw.send(going_on(session, 1), 13).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_full_fetch_of_nothing_opens_nothing(raw: Raw) -> None:
    reply = raw.send(fetch_request({}, session=(0, 0), wait=60_000), 12)
    assert (reply.error_code, reply.session_id, reply.responses) == (0, 0, [])


def test_when_all_slots_are_taken_a_consumer_gets_no_session_and_all_its_data() -> None:
    with (
        Broker(configs={"max.incremental.fetch.session.cache.slots": 2}, virtual_time=True) as broker,
        Raw(broker.bootstrap) as raw,
    ):
        create(raw, "t")
        append(raw, "t", batch("a"))
        for _ in range(2):
            opened(raw, {"t": [part()]})
        reply = raw.send(fetch_request({"t": [part()]}, session=(0, 0)), 12)
        assert (reply.session_id, values_in(reply)) == (0, ["a"])
        broker.advance(120_001)  # the oldest session has been idle for so long that it gives way
        opened(raw, {"t": [part()]})
