"""What each request gets in each state of a member (modern-groups 4 to 8 and 14)."""

from collections.abc import Callable

import pytest

from kohort.groups.commands import CommitOffsets, CommitRow, FetchOffsets, Heartbeat, Sync
from kohort.model.errors import ErrorCode as E
from kohort.model.ids import Generation, MemberId, Partition, TopicName
from kohort.sim.consumers import ConsumerScenario

ME = "m"


def unknown() -> ConsumerScenario:
    group = ConsumerScenario(t=2)
    group.join("other")
    return group


def stable() -> ConsumerScenario:
    group = ConsumerScenario(t=2)
    group.join(ME, instance="i")
    return group


def unrevoked() -> ConsumerScenario:
    group = stable()
    group.join("other")
    group.beat(ME)
    return group


def unreleased() -> ConsumerScenario:
    group = unknown()
    group.join(ME, instance="i")
    return group


def paused() -> ConsumerScenario:
    group = stable()
    group.beat(ME, epoch=-2, instance="i")
    return group


STATES: dict[str, Callable[[], ConsumerScenario]] = {
    "unknown": unknown,
    "stable": stable,
    "unrevoked": unrevoked,
    "unreleased": unreleased,
    "paused": paused,
}


def epoch(group: ConsumerScenario) -> int:
    member = group.group.members.get(MemberId(ME))
    return 1 if member is None else member.current.member_epoch


def commit(group: ConsumerScenario) -> E:
    row = CommitRow(TopicName("t"), Partition(0), 1)
    command = CommitOffsets(
        reply_to=group.next_request(),
        group_id=group.group_id,
        rows=(row,),
        generation=Generation(epoch(group)),
        member_id=MemberId(ME),
    )
    return _code(group.ask(command).rows[0].error)


def fetch(group: ConsumerScenario) -> E:
    command = FetchOffsets(
        reply_to=group.next_request(),
        group_id=group.group_id,
        member_id=MemberId(ME),
        member_epoch=epoch(group) + 1,
    )
    return _code(group.ask(command).error)


def classic_heartbeat(group: ConsumerScenario) -> E:
    command = Heartbeat(
        reply_to=group.next_request(),
        group_id=group.group_id,
        member_id=MemberId(ME),
        generation=Generation(epoch(group)),
    )
    return _code(group.ask(command).error)


def sync(group: ConsumerScenario) -> E:
    command = Sync(
        reply_to=group.next_request(),
        group_id=group.group_id,
        member_id=MemberId(ME),
        generation=Generation(epoch(group)),
        version=4,
    )
    return _code(group.ask(command).error)


def _code(error: object) -> E:
    assert isinstance(error, E)
    return error


REQUESTS: dict[str, Callable[[ConsumerScenario], E]] = {
    "its epoch": lambda group: group.beat(ME, epoch=max(epoch(group), 1)).error,
    "a newer epoch": lambda group: group.beat(ME, epoch=9).error,
    "joins": lambda group: group.join(ME, instance="i").error,
    "joins without instance": lambda group: group.join(ME).error,
    "another joins as it": lambda group: group.join("n", instance="i").error,
    "another goes on as it": lambda group: group.beat("n", epoch=1, instance="i").error,
    "leaves": lambda group: group.beat(ME, epoch=-1, instance="i").error,
    "leaves for a while": lambda group: group.beat(ME, epoch=-2, instance="i").error,
    "commits": commit,
    "fetches with a wrong epoch": fetch,
    "classic heartbeat": classic_heartbeat,
    "SyncGroup": sync,
}

OK, GONE, FENCED, IN_USE = E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.UNRELEASED_INSTANCE_ID
STALE, REPLACED = E.STALE_MEMBER_EPOCH, E.FENCED_INSTANCE_ID

# One column for each state, in the order of STATES.
TABLE: dict[str, tuple[E, E, E, E, E]] = {
    "its epoch": (GONE, OK, OK, OK, FENCED),
    "a newer epoch": (GONE, FENCED, FENCED, FENCED, FENCED),
    "joins": (OK, IN_USE, IN_USE, IN_USE, OK),
    "joins without instance": (OK, OK, OK, OK, OK),
    "another joins as it": (OK, IN_USE, IN_USE, IN_USE, OK),
    "another goes on as it": (GONE, REPLACED, REPLACED, REPLACED, REPLACED),
    "leaves": (GONE, OK, OK, OK, OK),
    "leaves for a while": (GONE, OK, OK, OK, OK),
    "commits": (GONE, OK, OK, OK, OK),
    "fetches with a wrong epoch": (GONE, STALE, STALE, STALE, STALE),
    "classic heartbeat": (GONE, GONE, GONE, GONE, GONE),
    "SyncGroup": (GONE, GONE, GONE, GONE, GONE),
}


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", STATES)
def test_each_request_in_each_state(state: str, request_name: str) -> None:
    group = STATES[state]()
    expected = TABLE[request_name][list(STATES).index(state)]
    log = len(group.node.log)
    assert REQUESTS[request_name](group) is expected
    if expected is not E.NONE:
        assert len(group.node.log) == log, "a refused request is written nowhere"
