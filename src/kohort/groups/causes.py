"""Why an event happened: who asked, or which timer fired, and the numbers that decided.

A cause reads as an English sentence (``str(cause)``) and as JSON (``as_json(cause)``); the journal
keeps both, so that "why did this group rebalance?" is answered by looking it up.
"""

from dataclasses import dataclass
from typing import TypeAlias

from kohort.groups.field_names import FieldNames
from kohort.groups.takeover import takeover_sentence
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, MemberId, TopicName

JsonValue: TypeAlias = str | int | bool | list[str] | None


def _given(reason: str | None) -> str:
    """The client's own words, or Kafka's for their absence."""
    return f"reason given: {reason}" if reason else "reason not provided"


def _named(member_id: MemberId, instance_id: InstanceId | None) -> str:
    return member_id if instance_id is None else f"{member_id} (instance {instance_id})"


# --- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FirstJoin:
    """A client asked to join a group that did not exist."""

    client_id: str
    reason: str | None = None

    def __str__(self) -> str:
        return f"client {self.client_id or 'without a name'} was the first to join; {_given(self.reason)}"


@dataclass(frozen=True, slots=True)
class IdRequested:
    """A dynamic member without an id was sent away with one (KIP-394)."""

    member_id: MemberId
    client_id: str
    reason: str | None = None

    def __str__(self) -> str:
        return (
            f"client {self.client_id or 'without a name'} asked to join without a member id and was given "
            f"{self.member_id}; {_given(self.reason)}"
        )


@dataclass(frozen=True, slots=True)
class MemberArrived:
    """A member joined that was not one before."""

    member_id: MemberId
    instance_id: InstanceId | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return f"{_named(self.member_id, self.instance_id)} joined; {_given(self.reason)}"


@dataclass(frozen=True, slots=True)
class MemberRejoined:
    """A known member joined again."""

    member_id: MemberId
    was_leader: bool
    changed_protocols: bool
    reason: str | None = None

    def __str__(self) -> str:
        who = f"the leader {self.member_id}" if self.was_leader else f"{self.member_id}"
        how = "with other protocols or metadata" if self.changed_protocols else "unchanged"
        return f"{who} joined again {how}; {_given(self.reason)}"


@dataclass(frozen=True, slots=True)
class InstanceReturned:
    """A static member came back without its member id and replaces itself (KIP-345)."""

    instance_id: InstanceId
    old_member_id: MemberId
    member_id: MemberId
    reason: str | None = None

    def __str__(self) -> str:
        return (
            f"instance {self.instance_id} came back as {self.member_id}, it was {self.old_member_id}; "
            f"{_given(self.reason)}"
        )


@dataclass(frozen=True, slots=True)
class MemberLeft:
    """A member, or an administrator in its name, sent LeaveGroup."""

    member_id: MemberId
    instance_id: InstanceId | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return f"{_named(self.member_id, self.instance_id)} left; {_given(self.reason)}"


@dataclass(frozen=True, slots=True)
class CapacityReached:
    """The group is full."""

    member_id: MemberId
    size: int
    max_size: int

    def __str__(self) -> str:
        who = self.member_id or "a new member"
        return f"{who} was turned away: {self.size} members count, group.max.size is {self.max_size}"


@dataclass(frozen=True, slots=True)
class SyncReceived:
    """A member asked for its assignment; the leader brought everyone's."""

    member_id: MemberId
    is_leader: bool

    def __str__(self) -> str:
        if self.is_leader:
            return f"the leader {self.member_id} sent the assignment"
        return f"{self.member_id} asked for its assignment"


@dataclass(frozen=True, slots=True)
class CommitReceived:
    """Offsets were committed; a generation below zero is a commit from outside the membership."""

    member_id: MemberId
    generation: Generation
    partitions: int

    def __str__(self) -> str:
        if self.generation < 0:
            return f"an offset commit of {self.partitions} partitions from outside the membership"
        return f"{self.member_id} committed {self.partitions} partitions in generation {self.generation}"


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """An administrator deleted the group or some of its offsets."""

    what: str  # "the group" or "offsets"

    def __str__(self) -> str:
        return f"an administrator deleted {self.what}"


@dataclass(frozen=True, slots=True)
class SubscriptionChanged:
    """A member of a consumer group sent other details about itself."""

    member_id: MemberId
    names: tuple[TopicName, ...]
    expression: str

    def __str__(self) -> str:
        topics = ", ".join(self.names) or "no topics by name"
        matching = f" and topics that match {self.expression}" if self.expression else ""
        return f"{self.member_id} subscribes to {topics}{matching}"


@dataclass(frozen=True, slots=True)
class MemberPaused:
    """A static member of a consumer group left and will be back: its partitions stay reserved."""

    member_id: MemberId
    instance_id: InstanceId

    def __str__(self) -> str:
        return f"{_named(self.member_id, self.instance_id)} left for a while; its partitions stay reserved"


# --- timers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """A member was silent for longer than its session timeout."""

    member_id: MemberId
    silent_ms: int
    timeout_ms: int

    def __str__(self) -> str:
        return (
            f"session of {self.member_id} expired: last heartbeat {self.silent_ms:,} ms ago, "
            f"timeout {self.timeout_ms:,}"
        )


@dataclass(frozen=True, slots=True)
class NewMemberExpired:
    """A member that was never in a generation waited too long for its first one."""

    member_id: MemberId
    timeout_ms: int

    def __str__(self) -> str:
        return f"new member {self.member_id} saw no generation within {self.timeout_ms:,} ms"


@dataclass(frozen=True, slots=True)
class PendingIdExpired:
    """A member id was handed out and not used."""

    member_id: MemberId
    timeout_ms: int

    def __str__(self) -> str:
        return f"id {self.member_id} was handed out and not used within {self.timeout_ms:,} ms"


@dataclass(frozen=True, slots=True)
class JoinTimedOut:
    """The rebalance timeout passed before everyone had joined."""

    timeout_ms: int
    joined: int
    members: int

    def __str__(self) -> str:
        return (
            f"the rebalance timeout of {self.timeout_ms:,} ms passed: {self.joined} of {self.members} "
            "members had joined"
        )


@dataclass(frozen=True, slots=True)
class InitialDelayPassed:
    """The initial delay of an empty group is over, or is prolonged because members came."""

    delay_ms: int
    remaining_ms: int
    members: int

    def __str__(self) -> str:
        return (
            f"the initial delay of {self.delay_ms:,} ms passed with {self.members} members; "
            f"{self.remaining_ms:,} ms could still be waited"
        )


@dataclass(frozen=True, slots=True)
class SyncTimedOut:
    """Members of a generation never asked for their assignment."""

    timeout_ms: int
    generation: Generation
    missing: tuple[MemberId, ...]

    def __str__(self) -> str:
        who = ", ".join(self.missing)
        return f"no sync from {who} within {self.timeout_ms:,} ms of generation {self.generation}"


@dataclass(frozen=True, slots=True)
class RevocationTimedOut:
    """A member of a consumer group did not give up partitions within its rebalance timeout."""

    member_id: MemberId
    timeout_ms: int
    partitions: int

    def __str__(self) -> str:
        return (
            f"{self.member_id} did not give up {self.partitions} partitions within the rebalance timeout "
            f"of {self.timeout_ms:,} ms"
        )


@dataclass(frozen=True, slots=True)
class ClassicMemberTimedOut:
    """A classic member of a consumer group did not follow a rebalance in time."""

    member_id: MemberId
    awaited: str
    timeout_ms: int

    def __str__(self) -> str:
        return f"no {self.awaited} from {self.member_id} within {self.timeout_ms:,} ms"


@dataclass(frozen=True, slots=True)
class RetentionPassed:
    """Nothing kept these offsets, or this group, alive for longer than the retention."""

    offsets: int
    retention_ms: int

    def __str__(self) -> str:
        if self.offsets:
            return f"{self.offsets} offsets expired, retention is {self.retention_ms:,} ms"
        return "the group was empty and had no offsets left"


# --- consequences -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EveryoneJoined:
    """All members had joined, so the join phase ended."""

    members: int

    def __str__(self) -> str:
        if self.members == 0:
            return "the last member is gone"
        return f"all {self.members} members had joined"


@dataclass(frozen=True, slots=True)
class AppendRefused:
    """The log did not take what the group had to store."""

    error: ErrorCode

    def __str__(self) -> str:
        return f"the log refused the write: {self.error.name}"


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The generation's assignment is in the log."""

    generation: Generation

    def __str__(self) -> str:
        return f"the assignment of generation {self.generation} is stored"


@dataclass(frozen=True, slots=True)
class TopicsDiffer:
    """A topic that a consumer group subscribes to was created or deleted, or has more partitions."""

    member_id: MemberId  # whose heartbeat found it

    def __str__(self) -> str:
        return f"the subscribed topics have changed, as the heartbeat of {self.member_id} found"


@dataclass(frozen=True, slots=True)
class ExpressionsMatched:
    """The regular expressions of a consumer group were matched with the topics."""

    expressions: tuple[str, ...]

    def __str__(self) -> str:
        return f"topics were matched with {', '.join(self.expressions)}"


@dataclass(frozen=True, slots=True)
class TargetComputed:
    """The assignor of the coordinator ran."""

    epoch: int
    assignor: str
    members: int

    def __str__(self) -> str:
        return f"{self.assignor} assigned epoch {self.epoch} to {self.members} members"


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A member of a consumer group made a step towards its target."""

    member_id: MemberId
    epoch: int
    revokes: int
    waits_for: tuple[MemberId, ...]  # members that own partitions of its target

    def __str__(self) -> str:
        if self.revokes:
            return (
                f"{self.member_id} has to give up {self.revokes} partitions and stays at epoch {self.epoch}"
            )
        if self.waits_for:
            return f"{self.member_id} is at epoch {self.epoch} and waits for {', '.join(self.waits_for)}"
        return f"{self.member_id} is at epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class KindChanged:
    """A group changed between the classic and the consumer protocol."""

    member_id: MemberId  # who joined or left
    protocol: str  # what it speaks now

    def __str__(self) -> str:
        return f"the group became a {self.protocol} group with {self.member_id}"


@dataclass(frozen=True, slots=True)
class TopicGone:
    """A topic was deleted."""

    topic: TopicName

    def __str__(self) -> str:
        return f"topic {self.topic} was deleted"


@dataclass(frozen=True, slots=True)
class PartitionLoaded:
    """The group was read from the log: after a start, or by a node that took over from another one.

    ``node`` took over from ``from_node`` for ``reason``, a value of ``ChangeReason``. No node answered for
    ``silent_ms`` at most: since the last sign of the node before until now.
    """

    members: int
    max_size: int
    node: int | None = None
    from_node: int | None = None
    reason: str | None = None
    silent_ms: int = 0

    def __str__(self) -> str:
        text = f"loaded with {self.members} members"
        if self.members > self.max_size:
            text += f", group.max.size is {self.max_size}"
        if self.reason is None:
            return text
        return f"{takeover_sentence(self.node, self.from_node, self.reason, self.silent_ms)}; {text}"


@dataclass(frozen=True, slots=True)
class PartitionUnloaded:
    """This node does not own the group any more."""

    def __str__(self) -> str:
        return "the coordinator of this group moved away"


Cause: TypeAlias = (
    FirstJoin
    | IdRequested
    | MemberArrived
    | MemberRejoined
    | InstanceReturned
    | MemberLeft
    | CapacityReached
    | SyncReceived
    | CommitReceived
    | DeletionRequested
    | SubscriptionChanged
    | MemberPaused
    | SessionExpired
    | NewMemberExpired
    | PendingIdExpired
    | JoinTimedOut
    | InitialDelayPassed
    | SyncTimedOut
    | RevocationTimedOut
    | ClassicMemberTimedOut
    | RetentionPassed
    | EveryoneJoined
    | AppendRefused
    | AssignmentStored
    | TopicsDiffer
    | ExpressionsMatched
    | TargetComputed
    | Reconciled
    | KindChanged
    | TopicGone
    | PartitionLoaded
    | PartitionUnloaded
)


_NAMES = FieldNames()


def as_json(cause: Cause) -> dict[str, JsonValue]:
    """The cause as JSON-able values: its ``kind``, its ``sentence``, and every number and name in it."""
    kind = type(cause)
    found: dict[str, JsonValue] = {"kind": kind.__name__, "sentence": str(cause)}
    for name in _NAMES[kind]:
        value = getattr(cause, name)
        if isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, ErrorCode):
            value = value.name
        found[name] = value
    return found
