"""Consumer groups (KIP-848) over the wire: what the broker tells the core, and what outlives a restart.

How groups decide is tested in tests/scenario/groups and by the recorded scripts of tests/interop.
"""

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from tests.broker.asking import create
from tests.broker.conftest import Restart
from tests.broker.grouping import commit_request, join_request
from tests.broker.raw import Raw

from kohort.broker import coordinator
from kohort.broker.coordinator import GroupCoordinator
from kohort.broker.expressions import Matches, resolve
from kohort.groups.commands import ComputeTarget, TargetReady
from kohort.groups.consumer.assigning import answer
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.testing.broker import Broker
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.usefixtures("both_paths")
GROUP = 32
Reply = Any
Answer: TypeAlias = Callable[[ComputeTarget], TargetReady]


def beat(raw: Raw, epoch: int, *names: str, **fields: Any) -> Reply:  # noqa: ANN401
    """A heartbeat of member ``m``; one that joins says all that is needed."""
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    request.topic_partitions = [] if epoch == 0 else None
    if epoch == 0:
        request.rebalance_timeout_ms = 30_000
        request.subscribed_topic_names = list(names)
    for name, value in fields.items():
        setattr(request, name, value)
    return raw.send(request, 1)


def owned(reply: Reply) -> int:
    """How many partitions a reply assigns."""
    assert reply.error_code == 0, reply
    return sum(len(topic.partitions) for topic in reply.assignment.topic_partitions)


def configure(raw: Raw, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[change])
    (answer,) = raw.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def find_coordinator(raw: Raw) -> None:
    """Make ``__consumer_offsets``: groups live from here on."""
    assert raw.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0


def test_a_topic_that_is_created_grows_and_goes_reaches_the_group(raw: Raw) -> None:
    find_coordinator(raw)
    assert owned(beat(raw, 0, "t")) == 0
    create(raw, "t", partitions=2)
    assert owned(beat(raw, 1)) == 2
    grow(raw, 5)
    assert owned(beat(raw, 2)) == 5
    raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000), 6)
    reply = beat(raw, 3)
    assert owned(reply) == 0


def test_topics_that_were_there_before_the_first_group_are_known(raw: Raw) -> None:
    create(raw, "t", partitions=3)
    find_coordinator(raw)
    assert owned(beat(raw, 0, "t")) == 3


def test_a_regular_expression_is_resolved_while_others_are_served(raw: Raw) -> None:
    create(raw, "orders-1", partitions=1)
    create(raw, "orders-2", partitions=1)
    create(raw, "others", partitions=1)
    find_coordinator(raw)
    reply = beat(raw, 0, subscribed_topic_names=None, subscribed_topic_regex="orders-.*")
    assert (reply.member_epoch, owned(reply)) == (1, 0)
    while (reply := beat(raw, reply.member_epoch)).assignment is None:
        pass  # each heartbeat is a round trip: the thread that matches has its turn
    assert owned(reply) == 2


@pytest.fixture
def assignors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Answer]]:
    """Every target but the first of a group is computed in a thread, by the next of these or as always."""
    settings = GroupCoordinator.settings
    waiting: list[Answer] = []
    monkeypatch.setattr(
        GroupCoordinator,
        "settings",
        lambda self, most=0: replace(settings(self, most), consumer_target_at_once=0),
    )
    monkeypatch.setattr(coordinator, "answer", lambda asked: (waiting.pop(0) if waiting else answer)(asked))
    yield waiting
    assert not waiting, "an assignor was not called"


def grow(raw: Raw, partitions: int) -> None:
    more = CreatePartitionsTopic(name="t", count=partitions, assignments=None)
    raw.send(CreatePartitionsRequest(topics=[more], timeout_ms=1_000), 3)


def test_a_large_target_is_computed_while_others_are_served(raw: Raw, assignors: list[Answer]) -> None:
    may_go_on = threading.Event()

    def slowly(asked: ComputeTarget) -> TargetReady:
        assert may_go_on.wait(30)
        return answer(asked)

    create(raw, "t", partitions=2)
    find_coordinator(raw)
    assert owned(beat(raw, 0, "t")) == 2
    grow(raw, 5)
    assignors.append(slowly)
    for _ in range(3):
        assert (beat(raw, 1).member_epoch, beat(raw, 1).assignment) == (1, None)
    may_go_on.set()
    while (reply := beat(raw, 1)).assignment is None:
        pass  # each heartbeat is a round trip: the thread has its turn
    assert (reply.member_epoch, owned(reply)) == (2, 5)


def test_a_bug_of_an_assignor_is_answered_and_logged_and_the_assignor_is_tried_again(
    raw: Raw, assignors: list[Answer], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(asked: ComputeTarget) -> TargetReady:
        raise ValueError("a bug")

    create(raw, "t", partitions=2)
    find_coordinator(raw)
    beat(raw, 0, "t")
    grow(raw, 5)
    assignors.append(fail)
    while not (reply := beat(raw, 1)).error_code:
        pass
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (line,) = [record for record in caplog.records if record.exc_info]
    assert line.getMessage() == "assignor uniform of group g failed: a bug"
    while (reply := beat(raw, 1)).assignment is None:
        pass
    assert owned(reply) == 5


@pytest.mark.parametrize(
    "fault", [MemoryError(), OSError(errno.EAGAIN, "no thread")], ids=["memory", "thread"]
)
def test_an_assignor_without_memory_or_thread_is_one_line_and_is_tried_again(
    raw: Raw, broker: Broker, assignors: list[Answer], caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    def fail(asked: ComputeTarget) -> TargetReady:
        raise fault

    create(raw, "t", partitions=2)
    find_coordinator(raw)
    beat(raw, 0, "t")
    grow(raw, 5)
    assignors.append(fail)
    while (reply := beat(raw, 1)).assignment is None:
        assert reply.error_code == 0
        broker.advance(100)
    assert owned(reply) == 5
    (line,) = [record for record in caplog.records if "assignor uniform of group g failed" in record.message]
    assert line.exc_info is None
    assert "it is tried again in 100 ms" in line.message


def test_expressions_that_cannot_be_matched_for_a_moment_are_one_line_and_are_tried_again(
    raw: Raw, broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [MemoryError()]

    def fail_once(expressions: tuple[str, ...], names: list[TopicName]) -> Matches:
        if faults:
            raise faults.pop()
        return resolve(expressions, names)

    monkeypatch.setattr(coordinator, "resolve", fail_once)
    create(raw, "t", partitions=2)
    find_coordinator(raw)
    reply = beat(raw, 0, subscribed_topic_names=None, subscribed_topic_regex="t.*")
    while not (reply.assignment and reply.assignment.topic_partitions):
        broker.advance(100)
        reply = beat(raw, reply.member_epoch)
        assert reply.error_code == 0
    assert owned(reply) == 2
    (line,) = [
        record for record in caplog.records if "regular expressions of group g failed" in record.message
    ]
    assert line.exc_info is None


def test_a_broker_that_stops_does_not_wait_for_an_assignor(restart: Restart, assignors: list[Answer]) -> None:
    may_go_on = threading.Event()
    raw = restart()
    create(raw, "t", partitions=2)
    find_coordinator(raw)
    beat(raw, 0, "t")
    grow(raw, 5)
    assignors.append(lambda asked: answer(asked) if may_go_on.wait(30) else TargetReady(asked, None))
    beat(raw, 1)
    raw = restart()
    may_go_on.set()
    while (reply := beat(raw, 1)).assignment is None:
        pass
    assert (reply.member_epoch, owned(reply)) == (2, 5)


def test_a_long_expression_is_compiled_elsewhere_and_answered_alike(raw: Raw) -> None:
    find_coordinator(raw)
    for expression in ("a(", "a" * 1_001 + "("):
        wrong = beat(raw, 0, subscribed_topic_names=None, subscribed_topic_regex=expression)
        text = f"SubscribedTopicRegex `{expression}` is not a valid regular expression: missing closing )."
        assert (wrong.error_code, wrong.error_message) == (128, text)
    right = beat(raw, 0, subscribed_topic_names=None, subscribed_topic_regex="a" * 1_001)
    assert (right.error_code, right.member_epoch) == (0, 1)


def test_a_member_that_never_revokes_is_put_out_and_the_others_get_its_partitions(
    broker: Broker, raw: Raw
) -> None:
    """It goes on with its heartbeats, and each says that it still owns everything."""
    topic_id = create(raw, "t", partitions=4)
    find_coordinator(raw)
    assert owned(beat(raw, 0, "t")) == 4
    holds = [TopicPartitions(topic_id=topic_id, partitions=[0, 1, 2, 3])]
    waits = beat(raw, 0, "t", member_id="waits")
    assert (waits.member_epoch, owned(waits)) == (2, 0)
    assert owned(beat(raw, 1, topic_partitions=holds)) == 2  # keep two: the other two are to be given up
    for _ in range(5):  # its rebalance timeout is 30 s
        broker.advance(5_000)
        assert beat(raw, 1, topic_partitions=holds).error_code == 0
        assert beat(raw, 2, member_id="waits").assignment is None
    broker.advance(5_000)
    assert beat(raw, 1, topic_partitions=holds).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    given = beat(raw, 2, member_id="waits")
    assert (given.member_epoch, owned(given)) == (3, 4)
    commit = commit_request((0, 9), topic="t", member=("m", 1), group="g")
    (refused,) = raw.send(commit, 9).topics[0].partitions
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_is_told_the_interval_of_its_group_at_its_next_heartbeat(raw: Raw) -> None:
    find_coordinator(raw)
    assert beat(raw, 0).heartbeat_interval_ms == 5_000
    configure(raw, "consumer.heartbeat.interval.ms", "7000")
    assert beat(raw, 1).heartbeat_interval_ms == 7_000


def test_groups_their_configs_and_their_members_outlive_a_restart(restart: Restart) -> None:
    """Modern trap 9. The client's host is stored with a slash before it."""
    raw = restart()
    create(raw, "t", partitions=2)
    find_coordinator(raw)
    assert owned(beat(raw, 0, "t")) == 2
    configure(raw, "consumer.heartbeat.interval.ms", "7000")
    raw = restart()
    restart.wait_for_groups()
    reply = beat(raw, 1)
    assert (reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms) == (0, 1, 7_000)
    (group,) = raw.send(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert [(each.member_id, each.member_epoch, each.client_host) for each in group.members] == [
        ("m", 1, "/127.0.0.1")
    ]
    assert [topic.topic_name for topic in group.members[0].assignment.topic_partitions] == ["t"]


def test_a_member_that_reports_many_partitions_is_answered(raw: Raw) -> None:
    find_coordinator(raw)
    beat(raw, 0)
    many = [TopicPartitions(topic_id=b"\1" * 16, partitions=list(range(60_000)))]
    assert beat(raw, 1, topic_partitions=many).error_code == 0


def test_members_of_all_groups_together_have_a_bound() -> None:
    with Broker(configs={"kohort.group.members.max.bytes": 20_000}) as broker, Raw(broker.bootstrap) as raw:
        find_coordinator(raw)
        codes = [beat(raw, 0, group_id=str(number)).error_code for number in range(20)]
        let_in = codes.count(0)
        assert 3 < let_in < 20
        assert codes[let_in:] == [ErrorCode.GROUP_MAX_SIZE_REACHED] * (20 - let_in)
        assert beat(raw, 0, group_id="0").error_code == 0  # who is in stays in


def test_a_classic_member_of_a_consumer_group_rejoins_when_the_memory_is_taken() -> None:
    with Broker(configs={"kohort.group.members.max.bytes": 20_000}) as broker, Raw(broker.bootstrap) as raw:
        find_coordinator(raw)
        beat(raw, 0)
        joined = raw.send(join_request(group="g"), 3)
        assert joined.error_code == 0
        codes = [beat(raw, 0, group_id=str(number)).error_code for number in range(20)]
        assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert raw.send(join_request(joined.member_id, group="g"), 3).error_code == 0
        assert raw.send(join_request(group="g"), 3).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
