"""The table "state x request" of consumer groups in docs/reference/group-states.md, cell by cell.

(modern-groups 4 to 8 and 14)
"""

from collections.abc import Callable

import pytest
from tests.scenario.groups.consumer.mixed import Mixed, T
from tests.scenario.groups.states import table_of

from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    DeleteGroups,
    FetchOffsets,
    Leave,
    Leaver,
)
from kohort.groups.consumer.assignment import LEAVING, LEFT_FOR_A_WHILE, MemberState
from kohort.groups.consumer.state import ConsumerMember
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, MemberId, Partition

ME = "m"
INSTANCE = "i"
HEADER, ROWS = table_of("Consumer groups")


def absent() -> Mixed:
    return Mixed(t=2)


def stranger() -> Mixed:
    group = absent()
    group.join("other")
    return group


def stable() -> Mixed:
    group = unrevoked()
    group.acknowledge(ME)
    group.beat("other")
    return group


def unrevoked() -> Mixed:
    """It went from epoch 1 to epoch 2 before, so that there is an epoch before its own."""
    group = absent()
    group.join(ME, instance=INSTANCE)
    group.node.put_topic("t", 3)
    group.beat(ME)
    group.join("other")
    group.beat(ME)
    return group


def unreleased() -> Mixed:
    group = stranger()
    group.join(ME, instance=INSTANCE)
    return group


def away() -> Mixed:
    group = stable()
    group.beat(ME, epoch=LEFT_FOR_A_WHILE, instance=INSTANCE)
    return group


def classic() -> Mixed:
    group = unreleased()
    group.classic_join(ME, [], INSTANCE)
    group.beat("other")
    group.acknowledge("other")
    group.sync(ME, group.classic_join(ME, [], INSTANCE).generation)
    return group


STATES: dict[str, Callable[[], Mixed]] = {
    "∅": absent,
    "N": stranger,
    "S": stable,
    "U": unrevoked,
    "R": unreleased,
    "A": away,
    "C": classic,
}


MEMBER_STATES = {
    MemberState.STABLE: "S",
    MemberState.UNREVOKED_PARTITIONS: "U",
    MemberState.UNRELEASED_PARTITIONS: "R",
}


def state_after(group: Mixed) -> str:
    """What has become of the member, in the letters of the table."""
    if group.group_id not in group.node.shard.state.groups:
        return "∅"
    member = me(group)
    if member is None:
        return "N"
    if member.current.member_epoch == LEFT_FOR_A_WHILE:
        return "A"
    letter = MEMBER_STATES[member.current.state]
    return f"C{letter}".removesuffix("S") if member.is_classic else letter


def me(group: Mixed) -> ConsumerMember | None:
    found = group.node.shard.consumer_group(group.group_id)
    return None if found is None else found.members.get(MemberId(ME))


def epoch(group: Mixed) -> int:
    """The epoch of the member, so that only its state decides."""
    member = me(group)
    return 1 if member is None else max(member.current.member_epoch, 1)


def before(group: Mixed) -> ErrorCode:
    """A heartbeat with the epoch before, that reports what the member has: its reply was lost."""
    member = me(group)
    owned = {} if member is None else group.assigned(ME)
    return group.beat(ME, epoch=max(epoch(group) - 1, 1), owned=owned).error


def acknowledge(group: Mixed) -> ErrorCode:
    owned = {} if me(group) is None else group.assigned(ME)
    return group.beat(ME, epoch=epoch(group), owned=owned).error


def commit(member_epoch: int) -> Callable[[Mixed], ErrorCode]:
    """``member_epoch`` is added to its own."""

    def send(group: Mixed) -> ErrorCode:
        command = CommitOffsets(
            reply_to=group.next_request(),
            group_id=group.group_id,
            rows=(CommitRow(T, Partition(0), 1),),
            generation=Generation(epoch(group) + member_epoch),
            member_id=MemberId(ME),
        )
        found: ErrorCode = group.ask(command).rows[0].error
        return found

    return send


def fetch(member_epoch: int) -> Callable[[Mixed], ErrorCode]:
    def send(group: Mixed) -> ErrorCode:
        command = FetchOffsets(
            reply_to=group.next_request(),
            group_id=group.group_id,
            member_id=MemberId(ME),
            member_epoch=epoch(group) + member_epoch,
        )
        found: ErrorCode = group.ask(command).error
        return found

    return send


def classic_leave(group: Mixed) -> ErrorCode:
    leavers = (Leaver(MemberId(ME)),)
    reply = group.ask(Leave(reply_to=group.next_request(), group_id=group.group_id, leavers=leavers))
    found: ErrorCode = reply.error or reply.members[0].error
    return found


def delete(group: Mixed) -> ErrorCode:
    reply = group.ask(DeleteGroups(reply_to=group.next_request(), group_ids=(group.group_id,)))
    found: ErrorCode = reply.groups[0].error
    return found


REQUESTS: dict[str, Callable[[Mixed], ErrorCode]] = {
    "heartbeat, its epoch": lambda group: group.beat(ME, epoch=epoch(group)).error,
    "heartbeat, its epoch, owns what it has": acknowledge,
    "heartbeat, the epoch before, owns what it has": before,
    "heartbeat, a newer epoch": lambda group: group.beat(ME, epoch=epoch(group) + 1).error,
    "join": lambda group: group.join(ME, instance=INSTANCE).error,
    "join, without its instance id": lambda group: group.join(ME).error,
    "join, another id as its instance": lambda group: group.join("n", instance=INSTANCE).error,
    "heartbeat, another id as its instance": lambda group: group.beat("n", epoch=1, instance=INSTANCE).error,
    "leave": lambda group: group.beat(ME, epoch=LEAVING, instance=INSTANCE).error,
    "leave for a while": lambda group: group.beat(ME, epoch=LEFT_FOR_A_WHILE, instance=INSTANCE).error,
    "OffsetCommit, its epoch": commit(0),
    "OffsetCommit, another epoch": commit(1),
    "OffsetFetch, its epoch": fetch(0),
    "OffsetFetch, another epoch": fetch(1),
    "JoinGroup": lambda group: group.classic_join(ME, [], INSTANCE).error,
    "SyncGroup": lambda group: group.sync(ME, epoch(group)).error,
    "Heartbeat": lambda group: group.classic_beat(ME, epoch(group)),
    "LeaveGroup": classic_leave,
    "DeleteGroups": delete,
}


def play(state: str, request: str) -> tuple[Mixed, str]:
    group = STATES[state]()
    assert state_after(group) == state
    error = REQUESTS[request](group)
    return group, f"{error.value} {state_after(group)}"


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", STATES)
def test_each_request_in_each_state(state: str, request_name: str) -> None:
    assert play(state, request_name)[1] == ROWS[request_name][HEADER.index(state)]


def test_the_table_has_every_request_and_every_state() -> None:
    assert (list(ROWS), HEADER) == (list(REQUESTS), list(STATES))


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", STATES)
def test_a_refused_request_is_written_nowhere(state: str, request_name: str) -> None:
    group = STATES[state]()
    log = len(group.node.log)
    if REQUESTS[request_name](group):
        assert len(group.node.log) == log
