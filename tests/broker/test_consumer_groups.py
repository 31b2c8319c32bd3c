"""Consumer groups (KIP-848) over the wire: what the broker tells the core, and what outlives a restart.

How groups decide is tested in tests/scenario/groups and by the recorded scripts of tests/interop.
"""

from typing import Any

from tests.broker.asking import create
from tests.broker.conftest import Restart
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
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

GROUP = 32
Reply = Any


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
    more = CreatePartitionsTopic(name="t", count=5, assignments=None)
    raw.send(CreatePartitionsRequest(topics=[more], timeout_ms=1_000), 3)
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


def test_a_long_expression_is_compiled_elsewhere_and_answered_alike(raw: Raw) -> None:
    find_coordinator(raw)
    for expression in ("a(", "a" * 1_001 + "("):
        wrong = beat(raw, 0, subscribed_topic_names=None, subscribed_topic_regex=expression)
        text = f"SubscribedTopicRegex `{expression}` is not a valid regular expression: missing closing )."
        assert (wrong.error_code, wrong.error_message) == (128, text)
    right = beat(raw, 0, subscribed_topic_names=None, subscribed_topic_regex="a" * 1_001)
    assert (right.error_code, right.member_epoch) == (0, 1)


def test_a_member_is_told_the_interval_of_its_group_at_its_next_heartbeat(raw: Raw) -> None:
    find_coordinator(raw)
    assert beat(raw, 0).heartbeat_interval_ms == 5_000
    configure(raw, "consumer.heartbeat.interval.ms", "7000")
    assert beat(raw, 1).heartbeat_interval_ms == 7_000


def test_groups_their_configs_and_their_members_outlive_a_restart(restart: Restart) -> None:
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
    assert [(member.member_id, member.member_epoch) for member in group.members] == [("m", 1)]
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
