"""OffsetCommit, OffsetFetch and OffsetDelete on the wire: the shapes of all versions, ids, missing things.

What Kafka answers in every version is recorded: ``tests/interop/scripts/offsets.py``.
"""

import pytest
from tests.broker.asking import create
from tests.broker.grouping import GROUP, commit_request, find
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

pytestmark = pytest.mark.usefixtures("both_paths")
FETCH_SINGLE = range(1, 8)
STRANGE = bytes(range(16))
UNKNOWN_PARTITION, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
Found = tuple[int, int, int, str, int]


@pytest.fixture
def topic_id(raw: Raw) -> bytes:
    find(raw)
    return create(raw, "t", 3)


def codes(reply: Reply) -> list[tuple[str, int, int]]:
    return [
        (topic.name, part.partition_index, part.error_code)
        for topic in reply.topics
        for part in topic.partitions
    ]


def fetch(raw: Raw, version: int, topic_id: bytes, *indexes: int, group: str = GROUP) -> list[Found]:
    """What is committed for partitions of ``t``, in any version's own way of asking."""
    if version in FETCH_SINGLE:
        single = OffsetFetchRequestTopic(name="t", partition_indexes=list(indexes))
        reply = raw.send(OffsetFetchRequest(group_id=group, topics=[single]), version)
        assert reply.error_code == 0
        (topic,) = reply.topics
    else:
        wanted = OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=list(indexes))
        asked = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
        (answered,) = raw.send(OffsetFetchRequest(groups=[asked]), version).groups
        assert (answered.group_id, answered.error_code) == (group, 0)
        (topic,) = answered.topics
    assert (topic.topic_id == topic_id) if version >= 10 else (topic.name == "t")
    return [
        (
            part.partition_index,
            part.committed_offset,
            part.committed_leader_epoch,
            part.metadata,
            part.error_code,
        )
        for part in topic.partitions
    ]


# OffsetCommit


@pytest.mark.parametrize("wrong", [STRANGE, bytes(16)])
def test_an_id_nobody_knows_is_told_for_each_partition_and_the_rest_is_committed(
    raw: Raw, topic_id: bytes, wrong: bytes
) -> None:
    request = commit_request((0, 7), topic=topic_id)
    request.topics.insert(0, commit_request((0, 1), (1, 2), topic=wrong).topics[0])
    reply = raw.send(request, 10)
    assert [(topic.topic_id, [part.error_code for part in topic.partitions]) for topic in reply.topics] == [
        (wrong, [UNKNOWN_ID, UNKNOWN_ID]),
        (topic_id, [0]),
    ]


@pytest.mark.parametrize("index", [3, -1, 2**31 - 1])
def test_what_does_not_exist_comes_first_in_the_reply(raw: Raw, topic_id: bytes, index: int) -> None:
    request = commit_request((0, 7), (index, 1))
    request.topics.append(commit_request((0, 1), topic="none").topics[0])
    assert codes(raw.send(request, 8)) == [
        ("t", index, UNKNOWN_PARTITION),
        ("t", 0, 0),
        ("none", 0, UNKNOWN_PARTITION),
    ]


def test_the_limit_of_metadata_is_a_setting() -> None:
    with Broker(configs={"offset.metadata.max.bytes": 3}) as broker, Raw(broker.bootstrap) as raw:
        find(raw)
        create(raw, "t")
        results = [
            codes(raw.send(commit_request((0, 1), metadata=text), 8))[0][2] for text in ("abc", "abcd")
        ]
        assert results == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]


# OffsetFetch


@pytest.mark.parametrize("wrong", [STRANGE, bytes(16)])
def test_in_v10_an_id_nobody_knows_follows_the_others_with_its_error(
    raw: Raw, topic_id: bytes, wrong: bytes
) -> None:
    raw.send(commit_request((0, 7)), 8)
    asked = OffsetFetchRequestGroup(
        group_id=GROUP,
        topics=[
            OffsetFetchRequestTopics(topic_id=wrong, partition_indexes=[0, 4]),
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
        ],
    )
    (group,) = raw.send(OffsetFetchRequest(groups=[asked]), 10).groups
    found = [
        (topic.topic_id, [(part.committed_offset, part.error_code) for part in topic.partitions])
        for topic in group.topics
    ]
    assert found == [(topic_id, [(7, 0)]), (wrong, [(-1, UNKNOWN_ID), (-1, UNKNOWN_ID)])]


def test_a_topic_made_again_has_none_of_the_old_commits(raw: Raw, topic_id: bytes) -> None:
    raw.send(commit_request((0, 7), topic=topic_id), 10)
    raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    again = create(raw, "t", 3)
    assert fetch(raw, 10, again, 0) == [(0, -1, -1, "", 0)]
