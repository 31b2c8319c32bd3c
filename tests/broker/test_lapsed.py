"""A node that could not renew its lease answers nothing from memory: another may lead what it led."""

from collections.abc import Iterator

import pytest
from tests.broker.asking import append, batch, create, fetch_request, metadata, part
from tests.broker.asking import produce_request as producing
from tests.broker.grouping import GROUP, alone, commit_request, heartbeat_request, join_request
from tests.broker.raw import Raw, Reply
from tests.broker.test_led_elsewhere import committed, delete_records, list_offsets, offset_for_epoch
from tests.broker.three import Node1, one_of_three

from kohort.broker.handlers import SERVED
from kohort.codec.schema import Message
from kohort.groups.commands import FetchOffsets
from kohort.groups.replies import FetchReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId
from kohort.model.topics import CONSUMER_OFFSETS, TopicPartition
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest

NOT_LEADER, NOT_COORDINATOR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node1]:
    with one_of_three(monkeypatch) as node:
        yield node


@pytest.fixture
def raw(node: Node1) -> Iterator[Raw]:
    with Raw(node.broker.bootstrap) as raw:
        yield raw


@pytest.fixture
def member(node: Node1, raw: Raw) -> tuple[str, int]:
    create(raw, "t", 1)
    append(raw, "t", batch("a"))
    member = alone(raw)
    assert raw.send(commit_request((0, 7), member=member), 8).topics[0].partitions[0].error_code == 0
    return member


def of_topics(reply: Reply) -> int:
    code: int = reply.topics[0].partitions[0].error_code
    return code


LOGS: list[tuple[Message, int]] = [
    (list_offsets(-1), 11),
    (list_offsets(5), 11),
    (delete_records(), 2),
    (offset_for_epoch(), 4),
]


@pytest.mark.parametrize(("request_", "version"), LOGS)
def test_requests_for_a_log_are_not_leader(node: Node1, raw: Raw, request_: Message, version: int) -> None:
    create(raw, "t", 1)
    append(raw, "t", batch("a"))
    node.cluster.is_lapsed = True
    assert of_topics(raw.send(request_, version)) == NOT_LEADER
    node.cluster.is_lapsed = False
    assert of_topics(raw.send(request_, version)) == 0


def test_produce_and_fetch_are_not_leader_and_without_a_hint(node: Node1, raw: Raw) -> None:
    topic_id = create(raw, "t", 1)
    node.cluster.is_lapsed = True
    produced = raw.send(producing("t", batch("a")), 12)
    (entry,) = produced.responses[0].partition_responses
    assert (entry.error_code, entry.current_leader, produced.node_endpoints) == (NOT_LEADER, None, [])
    fetched = raw.send(fetch_request({topic_id: (part(),)}), 17)
    (found,) = fetched.responses[0].partitions
    assert (found.error_code, found.current_leader, fetched.node_endpoints) == (NOT_LEADER, None, [])


def test_a_fetch_that_waited_says_nothing_of_what_it_found(node: Node1, raw: Raw) -> None:
    topic_id = create(raw, "t", 1)
    raw.post(fetch_request({topic_id: (part(),)}, wait=60_000), 17)
    with Raw(node.broker.bootstrap) as other:
        assert metadata(other, "t").topics[0].error_code == 0

        async def lapse() -> None:
            broker = node.broker.server.broker
            node.cluster.is_lapsed = True
            served = broker.topics.get("t")
            assert served is not None
            for waiting in list(broker.fetch_waiters._waiting[served.logs[0].partition]):
                waiting.finish()

        node.broker.run(lapse())
    assert raw.take().responses[0].partitions[0].error_code == NOT_LEADER


def lapse_once_it_is_stored(node: Node1) -> None:
    def lapse(_partition: TopicPartition) -> None:
        node.cluster.is_lapsed = True

    async def watch() -> None:
        node.broker.server.broker.storage.on_advance(lapse)

    node.broker.run(watch())


def test_a_produce_that_is_stored_is_answered_so_though_the_window_closed_meanwhile(
    node: Node1, raw: Raw
) -> None:
    create(raw, "t", 1)
    lapse_once_it_is_stored(node)
    (entry,) = raw.send(producing("t", batch("a")), 12).responses[0].partition_responses
    assert node.cluster.is_lapsed
    assert (entry.error_code, entry.base_offset) == (0, 0)


@pytest.mark.parametrize("before", [0, 3], ids=["read", "recognised"])
def test_a_commit_that_is_stored_is_answered_so_though_the_window_closed_meanwhile(
    node: Node1, raw: Raw, member: tuple[str, int], before: int
) -> None:
    commit = commit_request((0, 8), member=member)
    assert [of_topics(raw.send(commit, 8)) for _ in range(before)] == [0] * before
    lapse_once_it_is_stored(node)
    assert of_topics(raw.send(commit, 8)) == 0
    assert node.cluster.is_lapsed


def test_requests_for_a_group_are_not_coordinator(node: Node1, raw: Raw, member: tuple[str, int]) -> None:
    heartbeat = heartbeat_request(*member)
    assert [raw.send(heartbeat, 4).error_code for _ in range(2)] == [0, 0]  # the second is recognised
    commit = commit_request((0, 8), member=member)
    assert [of_topics(raw.send(commit, 8)) for _ in range(3)] == [0, 0, 0]
    node.cluster.is_lapsed = True
    assert raw.send(heartbeat, 4).error_code == NOT_COORDINATOR
    assert of_topics(raw.send(commit, 8)) == NOT_COORDINATOR
    assert raw.send(join_request(member[0]), 5).error_code == NOT_COORDINATOR
    assert committed(raw)[0] == NOT_COORDINATOR
    assert raw.send(ListGroupsRequest(), 4).error_code == NOT_COORDINATOR
    (group,) = raw.send(DescribeGroupsRequest(groups=[GROUP]), 5).groups
    assert group.error_code == NOT_COORDINATOR
    node.cluster.is_lapsed = False
    assert raw.send(heartbeat, 4).error_code == 0
    assert committed(raw) == (0, 8)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=None), 12),
        (FindCoordinatorRequest(coordinator_keys=[GROUP]), 4),
        (DescribeClusterRequest(), 0),
        (DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0),
    ],
)
def test_who_asks_which_node_leads_is_sent_to_another_node(
    node: Node1, raw: Raw, request_: Message, version: int
) -> None:
    create(raw, "t", 1)
    node.cluster.is_lapsed = True
    raw.post(request_, version)
    assert raw.is_closed()


def test_every_api_of_groups_and_logs_and_of_the_view_is_checked() -> None:
    unchecked = {api.key.name for api in SERVED if api.source is None}
    assert not unchecked & {
        "JOIN_GROUP",
        "SYNC_GROUP",
        "LEAVE_GROUP",
        "OFFSET_FETCH",
        "OFFSET_DELETE",
        "FETCH",
        "METADATA",
    }


def test_no_member_expires_while_it_cannot_be_heard(node: Node1, raw: Raw, member: tuple[str, int]) -> None:
    node.cluster.is_lapsed = True
    node.broker.advance(60_000)  # its session has ten seconds

    async def resume() -> None:
        node.cluster.resume(60_000)

    node.broker.run(resume())
    assert raw.send(heartbeat_request(*member), 4).error_code == 0
    node.broker.advance(9_000)
    assert raw.send(heartbeat_request(*member), 4).error_code == 0
    node.broker.advance(11_000)
    assert raw.send(heartbeat_request(*member), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_shard_that_is_led_here_but_not_open_yet_is_being_loaded(
    node: Node1, raw: Raw, member: tuple[str, int]
) -> None:
    broker = node.broker.server.broker

    async def look() -> int:
        node.cluster.move(CONSUMER_OFFSETS, 0, node.cluster.here, 4)
        served = broker.topics.get(CONSUMER_OFFSETS)
        assert served is not None
        assert not served.logs, "it is opened again in the background, at its new epoch"
        reply = broker.coordinator.ask(
            GROUP, lambda reply_to: FetchOffsets(reply_to=reply_to, group_id=GroupId(GROUP))
        )
        assert isinstance(reply, FetchReply)
        return reply.error

    assert node.broker.run(look()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
