"""OffsetCommit, OffsetFetch and OffsetDelete on the wire: the shapes of all versions, ids, missing things."""

import pytest
from tests.broker.asking import create
from tests.broker.grouping import GROUP, alone, commit_request, find
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

COMMIT_BY_NAME, FETCH_SINGLE, FETCH_SEVERAL = range(2, 10), range(1, 8), range(8, 11)
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


@pytest.mark.parametrize("version", COMMIT_BY_NAME)
def test_a_commit_by_name_is_there_for_every_way_of_asking(raw: Raw, topic_id: bytes, version: int) -> None:
    reply = raw.send(commit_request((0, 7), (2, 9), metadata="note", epoch=4), version)
    assert codes(reply) == [("t", 0, 0), ("t", 2, 0)]
    epoch = 4 if version >= 6 else -1
    for asking in (*FETCH_SINGLE, *FETCH_SEVERAL):
        told = epoch if asking >= 5 else -1
        assert fetch(raw, asking, topic_id, 0, 1, 2) == [
            (0, 7, told, "note", 0),
            (1, -1, -1, "", 0),
            (2, 9, told, "note", 0),
        ], asking


def test_v10_commits_by_id(raw: Raw, topic_id: bytes) -> None:
    reply = raw.send(commit_request((0, 7), topic=topic_id), 10)
    assert reply.topics[0].topic_id == topic_id
    assert reply.topics[0].partitions[0].error_code == 0
    assert fetch(raw, 10, topic_id, 0) == [(0, 7, -1, "", 0)]
    assert fetch(raw, 9, topic_id, 0) == [(0, 7, -1, "", 0)]


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


def test_nothing_to_commit_is_answered_with_nothing(raw: Raw, topic_id: bytes) -> None:
    request = commit_request(group="nobody", member=("x", 5))
    assert raw.send(request, 9).topics == []
    request.topics = []
    assert raw.send(request, 9).topics == []


@pytest.mark.parametrize("version", COMMIT_BY_NAME)
def test_a_generation_of_a_group_that_is_not_there(raw: Raw, topic_id: bytes, version: int) -> None:
    reply = raw.send(commit_request((0, 1), member=("x", 3)), version)
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert codes(reply) == [("t", 0, expected)]


def test_errors_of_the_group_are_repeated_for_every_partition(raw: Raw, topic_id: bytes) -> None:
    member, generation = alone(raw)
    wrong = raw.send(commit_request((0, 1), (1, 1), member=(member, generation + 1)), 8)
    assert codes(wrong) == [("t", 0, ErrorCode.ILLEGAL_GENERATION), ("t", 1, ErrorCode.ILLEGAL_GENERATION)]
    stranger = raw.send(commit_request((0, 1), member=("x", generation)), 8)
    assert codes(stranger) == [("t", 0, ErrorCode.UNKNOWN_MEMBER_ID)]
    administrator = raw.send(commit_request((0, 1)), 8)
    assert codes(administrator) == [("t", 0, ErrorCode.UNKNOWN_MEMBER_ID)]
    assert codes(raw.send(commit_request((0, 1), member=(member, generation)), 8)) == [("t", 0, 0)]


def test_metadata_is_measured_in_utf_16_units(raw: Raw, topic_id: bytes) -> None:
    for text, code in (
        ("x" * 4_096, 0),
        ("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("ä" * 4_096, 0),
        ("😀" * 2_048, 0),
        ("😀" * 2_048 + "x", ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ):
        assert codes(raw.send(commit_request((0, 1), metadata=text), 8)) == [("t", 0, code)], text[:2]


def test_the_limit_of_metadata_is_a_setting() -> None:
    with Broker(configs={"offset.metadata.max.bytes": 3}) as broker, Raw(broker.bootstrap) as raw:
        find(raw)
        create(raw, "t")
        results = [
            codes(raw.send(commit_request((0, 1), metadata=text), 8))[0][2] for text in ("abc", "abcd")
        ]
        assert results == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize("version", [2, 8, 9])
def test_null_metadata_comes_back_empty(raw: Raw, topic_id: bytes, version: int) -> None:
    raw.send(commit_request((0, 1), metadata=None), version)
    assert fetch(raw, 8, topic_id, 0) == [(0, 1, -1, "", 0)]


@pytest.mark.parametrize("offset", [-1, -5, 2**63 - 1, -(2**63)])
def test_offsets_are_not_judged(raw: Raw, topic_id: bytes, offset: int) -> None:
    assert codes(raw.send(commit_request((0, offset)), 8)) == [("t", 0, 0)]
    assert fetch(raw, 8, topic_id, 0)[0][1] == offset


def test_a_partition_committed_twice_keeps_the_last(raw: Raw, topic_id: bytes) -> None:
    assert codes(raw.send(commit_request((0, 5), (0, 6)), 8)) == [("t", 0, 0), ("t", 0, 0)]
    assert fetch(raw, 8, topic_id, 0)[0][1] == 6


def test_the_empty_group_id_may_commit_and_fetch(raw: Raw, topic_id: bytes) -> None:
    assert codes(raw.send(commit_request((0, 5), group=""), 8)) == [("t", 0, 0)]
    assert fetch(raw, 8, topic_id, 0, group="")[0][1] == 5


# OffsetFetch


@pytest.mark.parametrize("version", [*FETCH_SINGLE, *FETCH_SEVERAL])
def test_a_group_that_is_not_there_has_nothing_committed(raw: Raw, topic_id: bytes, version: int) -> None:
    assert fetch(raw, version, topic_id, 1, 0, group="nobody") == [(1, -1, -1, "", 0), (0, -1, -1, "", 0)]


@pytest.mark.parametrize("version", range(2, 8))
def test_null_means_everything_that_is_committed(raw: Raw, topic_id: bytes, version: int) -> None:
    raw.send(commit_request((2, 9), (0, 7)), 8)
    reply = raw.send(OffsetFetchRequest(group_id=GROUP, topics=None), version)
    assert reply.error_code == 0
    found = {part.partition_index: part.committed_offset for part in reply.topics[0].partitions}
    assert found == {2: 9, 0: 7}
    assert raw.send(OffsetFetchRequest(group_id="nobody", topics=None), version).topics == []


@pytest.mark.parametrize("version", FETCH_SEVERAL)
def test_several_groups_are_answered_in_order(raw: Raw, topic_id: bytes, version: int) -> None:
    raw.send(commit_request((0, 1), group="a"), 8)
    raw.send(commit_request((0, 2), group="b"), 8)
    names = ["b", "nobody", "a"]
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    groups = raw.send(OffsetFetchRequest(groups=asked), version).groups
    assert [group.group_id for group in groups] == names
    found = [
        [part.committed_offset for topic in group.topics for part in topic.partitions] for group in groups
    ]
    assert found == [[2], [], [1]]


def test_no_groups_are_answered_with_none(raw: Raw, topic_id: bytes) -> None:
    assert raw.send(OffsetFetchRequest(groups=[]), 9).groups == []


@pytest.mark.parametrize("version", FETCH_SINGLE)
def test_a_topic_that_does_not_exist_has_nothing_committed_and_no_error(
    raw: Raw, topic_id: bytes, version: int
) -> None:
    wanted = OffsetFetchRequestTopic(name="none", partition_indexes=[0, -1, 99])
    reply = raw.send(OffsetFetchRequest(group_id=GROUP, topics=[wanted]), version)
    found = [
        (part.partition_index, part.committed_offset, part.error_code) for part in reply.topics[0].partitions
    ]
    assert found == [(0, -1, 0), (-1, -1, 0), (99, -1, 0)]


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


@pytest.mark.parametrize("stable", [True, False])
def test_asking_for_stable_offsets_changes_nothing_without_transactions(
    raw: Raw, topic_id: bytes, stable: bool
) -> None:
    raw.send(commit_request((0, 7)), 8)
    wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    reply = raw.send(OffsetFetchRequest(group_id=GROUP, topics=wanted, require_stable=stable), 7)
    assert reply.topics[0].partitions[0].committed_offset == 7


@pytest.mark.parametrize("version", [*FETCH_SINGLE, 8, 9])
def test_topics_without_partitions_keep_their_place(raw: Raw, topic_id: bytes, version: int) -> None:
    assert fetch(raw, version, topic_id) == []


# OffsetDelete


def delete(raw: Raw, *partitions: int, group: str = GROUP, topic: str = "t") -> Reply:
    parts = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    request = OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts)]
    )
    return raw.send(request, 0)


def test_deleted_offsets_are_gone_and_unknown_partitions_are_told(raw: Raw, topic_id: bytes) -> None:
    raw.send(commit_request((0, 7), (1, 8)), 8)
    reply = delete(raw, 0, 2, 9)
    assert reply.error_code == 0
    assert sorted(codes(reply)) == [("t", 0, 0), ("t", 2, 0), ("t", 9, UNKNOWN_PARTITION)]
    assert [row[1] for row in fetch(raw, 8, topic_id, 0, 1)] == [-1, 8]


@pytest.mark.parametrize(
    ("group", "code"), [("nobody", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)]
)
def test_a_group_that_is_not_there_is_told_at_the_top(
    raw: Raw, topic_id: bytes, group: str, code: int
) -> None:
    reply = delete(raw, 0, group=group)
    assert (reply.error_code, reply.topics) == (code, [])


def test_a_topic_somebody_is_subscribed_to_keeps_its_offsets(raw: Raw, topic_id: bytes) -> None:
    member = alone(raw)
    raw.send(commit_request((0, 7), member=member), 8)
    assert codes(delete(raw, 0)) == [("t", 0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
    assert fetch(raw, 8, topic_id, 0)[0][1] == 7
