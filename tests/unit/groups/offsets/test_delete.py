"""OffsetDelete, and topics that go."""

from kohort.groups.commands import TopicDeleted
from kohort.groups.events import OffsetsDeleted
from kohort.groups.offsets.apply import put_transactional_offset
from kohort.groups.offsets.state import TransactionalOffset
from kohort.groups.replies import DeleteOffsetsReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, ProducerId, TopicName
from kohort.sim.driver import Scenario

T0, OLD0 = ("t", 0), ("old", 0)
NONE, SUBSCRIBED = ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def errors(scenario: Scenario, *partitions: tuple[str, int]) -> list[ErrorCode]:
    reply = scenario.replies[scenario.admin.delete_offsets(*partitions)]
    assert reply.error is NONE
    return [row.error for row in reply.rows]


def test_a_group_level_error_replaces_everything() -> None:
    scenario = Scenario()
    missing = DeleteOffsetsReply(error=ErrorCode.GROUP_ID_NOT_FOUND)
    assert scenario.replies[scenario.admin.delete_offsets(T0)] == missing
    assert scenario.error(scenario.admin.delete_offsets(group="")) is ErrorCode.INVALID_GROUP_ID
    scenario.join("a", protocol_type="connect")
    assert scenario.error(scenario.admin.delete_offsets(T0)) is ErrorCode.NON_EMPTY_GROUP
    scenario.unload()
    assert scenario.replies[scenario.admin.delete_offsets(T0)] == missing


def test_what_members_consume_stays() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.commit("a", {T0: 1, OLD0: 2})
    assert errors(scenario, T0, OLD0, ("old", 9)) == [SUBSCRIBED, NONE, NONE]
    assert (scenario.committed("t"), scenario.committed("old")) == (1, -1)
    assert scenario.why(OffsetsDeleted) == ["an administrator deleted offsets"]


def test_unreadable_subscriptions_protect_every_topic() -> None:
    scenario = Scenario()
    scenario.join("a", protocols=[("range", b"?")])
    scenario.settle()
    assert errors(scenario, T0, OLD0) == [SUBSCRIBED, SUBSCRIBED]


def test_in_an_empty_group_everything_goes_with_one_tombstone_each() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.commit("a", {T0: 1})
    scenario.leave("a")
    written = len(scenario.log)
    assert errors(scenario, T0, T0, OLD0) == [NONE, NONE, NONE]
    assert [record.value for record in scenario.log[written:]] == [None]
    assert scenario.committed() == -1
    assert scenario.exists


def test_what_is_on_its_way_is_deleted_too() -> None:
    scenario = Scenario()
    scenario.hold_appends()
    scenario.commit(None, {T0: 1})
    request = scenario.admin.delete_offsets(T0)
    assert scenario.is_parked(request)
    scenario.release_appends()
    assert scenario.committed() == -1
    scenario.restart()
    assert scenario.committed() == -1


def test_a_refused_deletion_deletes_nothing() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 1})
    scenario.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = scenario.admin.delete_offsets(T0)
    assert scenario.replies[request] == DeleteOffsetsReply(error=ErrorCode.NOT_COORDINATOR)
    assert scenario.committed() == 1


def test_a_deletion_that_is_too_large_for_the_log_deletes_nothing() -> None:
    scenario = Scenario(GroupSettings(max_batch_bytes=1_000))
    keys = [("t", number) for number in range(60)]
    for key in keys:
        scenario.commit(None, {key: 1})
    request = scenario.admin.delete_offsets(*keys)
    assert scenario.replies[request] == DeleteOffsetsReply(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert scenario.committed("t", 29) == 1


def test_a_deleted_topic_is_forgotten_by_every_group() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 1, OLD0: 2})
    scenario.commit(None, {OLD0: 3}, group="h")
    scenario.commit(None, {T0: 4}, group="untouched")
    table = scenario.shard.state.offsets
    for topic in ("old", "t"):
        address = (GroupId("in a transaction"), TopicName(topic), Partition(0))
        put_transactional_offset(table, ProducerId(1), address, TransactionalOffset(0, b""))
    scenario.hold_appends()
    scenario.commit(None, {("old", 5): 6, ("t", 5): 6}, group="on its way")
    scenario.order(TopicDeleted(TopicName("old")))
    scenario.release_appends()
    gone = {
        event.group_id: event.partitions for event in scenario.events if isinstance(event, OffsetsDeleted)
    }
    assert gone == {"g": (OLD0,), "h": (OLD0,), "in a transaction": (OLD0,), "on its way": (("old", 5),)}
    assert scenario.committed("t") == 1
    assert scenario.committed("old", group="h") == -1
    assert len(table.open_offsets) == 1
    assert set(scenario.why(OffsetsDeleted)) == {"topic old was deleted"}


def test_a_topic_nobody_consumed_is_no_news() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 1})
    written = len(scenario.log)
    scenario.order(TopicDeleted(TopicName("old")))
    assert len(scenario.log) == written
