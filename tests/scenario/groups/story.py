"""Words the stories share: how a group gets into a state, and what an answer or a record looks like.

Expectations are spelled out here, field by field, and not taken from the defaults of the code under test.
"""

from typing import Unpack

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Heartbeat
from kohort.groups.replies import JoinedMember, JoinReply, SyncReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, ReplyTo
from kohort.records.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kohort.records.offsets_topic import decode_key, decode_value
from kohort.sim.driver import Scenario
from kohort.sim.members import JoinOptions, subscription

SESSION = 10_000  # of a member that does not say otherwise
REBALANCE = 30_000  # likewise
DELAY = 3_000  # group.initial.rebalance.delay.ms
NEW_MEMBER = 300_000  # how long a member may wait for its first generation
ON_T = subscription("t")  # metadata of a member that does not say otherwise


def phase_of(scenario: Scenario) -> Phase:
    """Where the group stands now. (A call: a type checker takes an attribute for the same all the time.)"""
    return scenario.phase


# --- how a group gets into a state ------------------------------------------------------------


def completing(
    *names: str, settings: GroupSettings | None = None, **options: Unpack[JoinOptions]
) -> Scenario:
    """Generation 1 of these members has begun this very moment; the first one leads; nobody has synced."""
    scenario = Scenario(settings)
    for name in names:
        scenario.join(name, **options)
    await_generation(scenario)
    return scenario


def stable(*names: str, settings: GroupSettings | None = None, **options: Unpack[JoinOptions]) -> Scenario:
    """Like ``completing``, and everyone has synced at that moment: ``b"for-<name>"`` is its assignment."""
    scenario = completing(*names, settings=settings, **options)
    scenario.sync_all()
    assert phase_of(scenario) is Phase.STABLE
    return scenario


def preparing(*names: str, settings: GroupSettings | None = None, **options: Unpack[JoinOptions]) -> Scenario:
    """A stable group that ``late`` has just joined, in the old way: nobody else has joined again yet."""
    scenario = stable(*names, settings=settings, **options)
    scenario.join("late", version=3)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    return scenario


def emptied(*names: str, settings: GroupSettings | None = None, **options: Unpack[JoinOptions]) -> Scenario:
    """A group whose members have all left: Empty, generation 2."""
    scenario = stable(*names, settings=settings, **options)
    scenario.leave(*names)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    return scenario


def await_generation(scenario: Scenario) -> None:
    """Let seconds pass until the join phase is over."""
    for _ in range(1_000):
        if phase_of(scenario) is not Phase.PREPARING_REBALANCE:
            break
        scenario.sleep(1_000)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE


def sleep_until(scenario: Scenario, instant: int) -> None:
    """Let time pass until so many milliseconds after the story began."""
    assert instant >= scenario.now, "the story is further on"
    scenario.sleep(instant - scenario.now)


def keep_alive(scenario: Scenario, *names: str, millis: int, every: int = 5_000) -> None:
    """Let time pass while these members send heartbeats and hear nothing that would make them give up."""
    end = scenario.now + millis
    while scenario.now < end:
        for name in names:
            assert scenario.heartbeat(name) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        scenario.sleep(min(every, end - scenario.now))


def beat(scenario: Scenario, name: str, generation: int | None = None) -> ErrorCode:
    """A heartbeat that comes as a command, not through the short cut."""
    member = scenario.member(name)
    request = Heartbeat(
        reply_to=scenario.next_reply_to(),
        group_id=scenario.group_id,
        member_id=member.member_id,
        generation=member.generation if generation is None else Generation(generation),
        instance_id=member.instance_id,
    )
    return scenario.error(scenario.send(request))


# --- answers ----------------------------------------------------------------------------------


def refused_join(error: ErrorCode, member_id: str = "") -> JoinReply:
    """The whole answer of a JoinGroup that came to nothing."""
    return JoinReply(
        error=error,
        generation=Generation(-1),
        protocol_type=None,
        protocol_name=None,
        leader=MemberId(""),
        member_id=MemberId(member_id),
        skip_assignment=False,
        members=(),
    )


def refused_sync(error: ErrorCode) -> SyncReply:
    """The whole answer of a SyncGroup that came to nothing."""
    return SyncReply(error=error, protocol_type=None, protocol_name=None, assignment=b"")


def assigned(assignment: bytes, protocol: str = "range", protocol_type: str = "consumer") -> SyncReply:
    """The whole answer of a SyncGroup that brought an assignment."""
    return SyncReply(
        error=ErrorCode.NONE, protocol_type=protocol_type, protocol_name=protocol, assignment=assignment
    )


def joined(scenario: Scenario, name: str, leader: str, generation: int, listed: str = "") -> JoinReply:
    """The whole answer of a JoinGroup; ``listed``: names of the members it lists, on the default topic."""
    return JoinReply(
        error=ErrorCode.NONE,
        generation=Generation(generation),
        protocol_type="consumer",
        protocol_name="range",
        leader=scenario.id_of(leader),
        member_id=scenario.id_of(name),
        skip_assignment=False,
        members=tuple(
            JoinedMember(scenario.id_of(each), scenario.member(each).instance_id, ON_T)
            for each in listed.split()
        ),
    )


def names_listed(scenario: Scenario, request: ReplyTo) -> set[str]:
    """Whom the answer to a join lists."""
    return {scenario.name_of(each.member_id) for each in scenario.replies[request].members}


def commit_errors(scenario: Scenario, request: ReplyTo) -> list[ErrorCode]:
    """The errors of an OffsetCommit, partition by partition."""
    return [row.error for row in scenario.replies[request].rows]


def commit_error(scenario: Scenario, request: ReplyTo) -> ErrorCode:
    """The error of an OffsetCommit of one partition."""
    [error] = commit_errors(scenario, request)
    return error


def old_owner(scenario: Scenario, name: str, instance: str) -> MemberId:
    """Restart a static member: it joins without its id. Returns the id it had."""
    before = scenario.id_of(name)
    assert scenario.group.instances[InstanceId(instance)] == before
    scenario.join_once(name, member_id="", instance=instance)
    return before


# --- the log ----------------------------------------------------------------------------------


def group_records(scenario: Scenario, group: str = "g") -> list[GroupMetadataValue | None]:
    """What the log has about a group itself, oldest first; ``None`` is a tombstone."""
    return [
        None if record.value is None else decode_value(GroupMetadataValue, record.value)
        for record in scenario.log
        if decode_key(record.key) == GroupMetadataKey(group)
    ]


def last_group_record(scenario: Scenario, group: str = "g") -> GroupMetadataValue:
    """The newest record of a group, which is no tombstone."""
    newest = group_records(scenario, group)[-1]
    assert newest is not None
    return newest


def offset_records(scenario: Scenario, group: str = "g") -> list[tuple[str, int, bytes | None]]:
    """What the log has about a group's offsets: topic, partition, value."""
    found = []
    for record in scenario.log:
        key = decode_key(record.key)
        if isinstance(key, OffsetCommitKey) and key.group == group:
            found.append((key.topic, key.partition, record.value))
    return found


def state_of(scenario: Scenario, group: str = "g") -> str:
    """What ListGroups says of a group's state; ``""`` if it does not list it."""
    reply = scenario.replies[scenario.admin.list_groups()]
    return next((each.state for each in reply.groups if each.group_id == GroupId(group)), "")
