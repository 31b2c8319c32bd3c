"""What a query in a group learns of its logs, and what is a loss."""

from collections.abc import Collection
from dataclasses import replace

import pytest
from tests.property.spark.group_world import OPTIONS, PARTITIONS, World, WorldMember

from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.model.errors import ErrorCode
from kohort.model.topics import TopicPartition
from kohort.spark.errors import DataLossError
from kohort.spark.group.logs import GroupLogs
from kohort.spark.group.query import GroupQuery, QueryInputs
from kohort.spark.offsets import Offsets, SubscribeTo

A, B, C = PARTITIONS
CARELESS = replace(OPTIONS, fail_on_data_loss=False)


class Shrunk(World):
    """A topic that has but one partition left."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]:
        return [A]

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        if set(partitions) - {A}:
            raise BrokerError(self.code, "list offsets")
        return super().log_ends(partitions)


def test_what_is_not_there_is_a_loss_or_left_out(caplog: pytest.LogCaptureFixture) -> None:
    world = Shrunk()
    with pytest.raises(DataLossError, match="there is no t-1, t-2 any more"):
        GroupLogs(OPTIONS, world, world.log_ends).ends([A, B, C])
    careless = GroupLogs(CARELESS, world, world.log_ends)
    assert careless.ends([A, B, C]) == {A: 0}
    assert careless.starts([A, B]) == {A: 0}
    assert "going on without them" in caplog.text


def test_a_broker_that_cannot_answer_is_no_loss() -> None:
    world = Shrunk()
    world.code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(BrokerError, match="NOT_LEADER"):
        GroupLogs(CARELESS, world, world.log_ends).ends([A, B])


def test_the_first_id_of_a_topic_is_remembered() -> None:
    world = World()
    logs = GroupLogs(OPTIONS, world, world.log_ends)
    assert logs.ids_of([]) == {}
    first = logs.ids_of([A, B])
    world.make_topic_again(ends=0)
    assert logs.ids_of([A]) != first
    assert logs.first_ids == first


def test_a_position_behind_what_is_committed_may_be_in_what_is_not() -> None:
    world = World()
    world.ends[A] = 9
    logs = GroupLogs(OPTIONS, world, world.log_ends)
    assert logs.losses({A: 7}, {A: 5}) == [], "of an open transaction"
    assert [loss.where for loss in logs.losses({A: 12}, {A: 5})] == [A]
    assert logs.losses({}, {}) == []


def test_a_topic_that_was_named_and_does_not_exist_is_waited_for_or_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, wrong = World(), replace(OPTIONS, topics=SubscribeTo(("t", "u")))
    GroupLogs(OPTIONS, world, world.log_ends).check_names(may_wait=False)
    assert not caplog.text
    GroupLogs(wrong, world, world.log_ends).check_names(may_wait=True)
    assert "there is no topic u, going on without" in caplog.text
    with pytest.raises(UnknownTopicError, match="'u'"):
        GroupLogs(wrong, world, world.log_ends).check_names(may_wait=False)


def test_a_new_run_that_ends_by_itself_does_not_end_without_its_topic() -> None:
    world = World()
    wrong = replace(OPTIONS, topics=SubscribeTo(("u",)))
    query = GroupQuery(wrong, QueryInputs(WorldMember(world), world, world.log_ends))
    query.take_target()
    with pytest.raises(UnknownTopicError, match="'u'"):
        query.next_end({}, None)
