"""DeleteTopics: by name and by id, one answer for each, and nothing left of what is gone.

What Kafka answers in every version is recorded: ``tests/interop/scripts/topics.py``.
"""

from tests.broker.asking import (
    BROKER,
    alter,
    append,
    batch,
    create,
    fetch,
    metadata,
    offset_at,
    produce,
    values,
)
from tests.broker.conftest import Restart
from tests.broker.grouping import GROUP, alone, commit_request, find, heartbeat_request
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic


def delete(raw: Raw, *topics: DeleteTopicState) -> list[Reply]:
    results: list[Reply] = raw.send(DeleteTopicsRequest(topics=list(topics)), 6).responses
    return results


def test_deletion_can_be_disabled(raw: Raw) -> None:
    create(raw, "t")
    alter(raw, BROKER, "", delete_topic_enable="false")
    (result,) = delete(raw, DeleteTopicState(name="t"))
    assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert metadata(raw, "t").topics[0].error_code == 0


def test_nothing_answers_for_a_deleted_topic(raw: Raw) -> None:
    topic_id = create(raw, "t")
    append(raw, "t", batch("a"))
    delete(raw, DeleteTopicState(name="t"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(raw, "t", batch("b")).error_code == unknown
    assert produce(raw, topic_id, batch("b")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(raw, "t").error_code == unknown
    assert fetch(raw, topic_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert offset_at(raw, "t", -1).error_code == unknown


def test_a_deleted_topic_stays_deleted_after_a_restart(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    create(raw, "kept")
    append(raw, "t", batch("a"))
    delete(raw, DeleteTopicState(name="t"))
    raw = restart()
    assert metadata(raw, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(raw, "t")
    assert values(raw, "t") == []
    assert metadata(raw, "kept").topics[0].error_code == 0


def test_two_clients_that_delete_one_topic_at_once_are_both_answered(raw: Raw, broker: Broker) -> None:
    create(raw, "t", 5)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
    with Raw(broker.bootstrap) as other:
        raw.post(request, 6)
        other.post(request, 6)
        codes = {raw.take().responses[0].error_code, other.take().responses[0].error_code}
    assert codes == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    create(raw, "t")


def committed(raw: Raw, *names: str) -> list[int]:
    wanted = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names]
    reply = raw.send(OffsetFetchRequest(group_id=GROUP, topics=wanted), 7)
    assert reply.error_code == 0
    return [topic.partitions[0].committed_offset for topic in reply.topics]


def test_commits_go_with_their_topic_before_the_reply_is_there(restart: Restart) -> None:
    raw = restart()
    find(raw)
    names = [f"t{number}" for number in range(5)]
    for name in names:
        create(raw, name)
        raw.send(commit_request((0, 7), topic=name), 8)
    requests = [DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]) for name in names]
    raw.send_bytes(b"".join(raw.frame(request, 6) for request in requests))
    assert [raw.take().responses[0].error_code for _ in names] == [0] * 5
    raw = restart()  # at once: nothing may be left to be written
    restart.wait_for_groups()
    for name in names:
        create(raw, name)
    assert committed(raw, *names) == [-1] * 5


def test_deleting_the_offsets_topic_forgets_the_groups_and_the_next_lookup_begins_anew(raw: Raw) -> None:
    create(raw, "t")
    member = alone(raw)
    raw.send(commit_request((0, 7), member=member), 8)
    delete(raw, DeleteTopicState(name="__consumer_offsets"))
    assert raw.send(heartbeat_request(*member), 4).error_code == ErrorCode.NOT_COORDINATOR
    assert find(raw).error_code == 0
    assert raw.send(heartbeat_request(*member), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(raw, "t") == [-1]
