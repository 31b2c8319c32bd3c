"""The account of a group's rebalances: what the journal tells of it, in values.

Times are milliseconds since 1970, spans milliseconds. Members are named by their full ids; how they
are shown is the business of ``text``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from kohort.model.topics import TopicPartition

Cause = Mapping[str, Any]
"""A cause as the journal has it: ``kind``, ``sentence``, and the names and numbers that decided."""

UNKNOWN_CAUSE: Cause = {"kind": "Unknown", "sentence": "the journal does not have its beginning"}


class End(StrEnum):
    """How a rebalance ended."""

    STABLE = "stable"  # everyone could have its assignment, or has it (consumer groups)
    EMPTY = "empty"  # no member was left
    RESTARTED = "restarted"  # the next one began before there was an assignment
    LOST = "lost"  # the broker stopped, or handed the group over
    RUNNING = "running"  # not yet


class GroupKind(StrEnum):
    """By which protocol a group rebalances."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848: members follow the target one by one


class StoryMember(NamedTuple):
    """Who is behind a member id."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None


class Arrival(NamedTuple):
    """A member joined, or asked for its assignment, so long after the phase had begun."""

    member_id: str
    after_ms: int
    is_new: bool = False
    reason: str | None = None


class Removal(NamedTuple):
    """A member was taken out, or an id that was waited for given up, so long after the start."""

    member_id: str
    after_ms: int
    cause: Cause


class Replacement(NamedTuple):
    """A static member came back under another id."""

    instance_id: str
    old_member_id: str
    member_id: str


class Delay(NamedTuple):
    """Why the join phase was prolonged."""

    after_ms: int
    sentence: str


class Move(NamedTuple):
    """A partition changed hands. ``None`` is no owner."""

    partition: TopicPartition
    before: str | None
    after: str | None


class Lost(StrEnum):
    """How a partition lost its owner."""

    EAGER = "eager"  # everyone gave up everything to join again, some time after the rebalance had begun
    REVOKED = "revoked"  # the owner gave it up for another member, which did not have it yet
    GONE = "gone"  # the owner left or was removed
    SILENT = "silent"  # the owner was removed because it had not been heard of since
    AWAY = "away"  # the owner, a static member of a consumer group, left for a while


class Unowned(NamedTuple):
    """A partition without an owner for a while; still if ``until`` is ``None``."""

    partition: TopicPartition
    was: str
    lost: Lost
    since: int
    until: int | None
    owner: str | None

    @property
    def at_most(self) -> bool:
        """Whether it may have been a shorter time: the owner had it until it heard of the rebalance."""
        return self.lost is Lost.EAGER


class Revocation(NamedTuple):
    """A member of a consumer group has to give up partitions before others get them.

    It hears of that with its first heartbeat after the target was computed (``asked_after_ms``).
    """

    member_id: str
    partitions: frozenset[TopicPartition]
    waiting: tuple[str, ...]  # the members whose target they are
    asked_after_ms: int
    given_after_ms: int | None = None


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from the event that started it to its end.

    In a consumer group that is one group epoch, its ``generation``: until every member has what the target of
    that epoch gives it, or the next epoch comes.
    """

    started_at: int
    cause: Cause
    kind: GroupKind = GroupKind.CLASSIC
    members_before: tuple[str, ...] = ()
    generation_before: int | None = None
    is_partial: bool = False  # it began before the journal, or in a gap of it
    dropped: int = 0  # events the journal lost meanwhile, of whatever group
    arrivals: dict[str, Arrival] = field(default_factory=dict)  # by member, in the order they came
    removals: list[Removal] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    unused_ids: list[Removal] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    prepared_at: int | None = None  # the join phase ended, or the target was computed
    prepared_by: Cause | None = None
    generation: int | None = None
    protocol: str | None = None
    leader: str | None = None
    members: tuple[str, ...] = ()
    syncs: list[Arrival] = field(default_factory=list)
    revocations: list[Revocation] = field(default_factory=list)
    end: End = End.RUNNING
    ended_at: int | None = None
    end_cause: Cause | None = None
    awaited: tuple[str, ...] = ()  # whom a running one waits for
    is_cooperative: bool = False
    is_readable: bool = True  # the assignments are those of consumers
    is_assignment_known: bool = False  # both what was before and what came of it
    moves: list[Move] = field(default_factory=list)
    stayed: int = 0
    unowned: list[Unowned] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the journal has its beginning, and what was before it."""
        nothing_to_compare = self.end is not End.STABLE or not self.is_readable
        return not self.is_partial and (nothing_to_compare or self.is_assignment_known)

    @property
    def preparing_ms(self) -> int | None:
        """How long members were waited for."""
        until = self.ended_at if self.prepared_at is None else self.prepared_at
        return None if until is None else until - self.started_at

    @property
    def completing_ms(self) -> int | None:
        """How long the assignment took, from the first join answered to the end."""
        if self.prepared_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.prepared_at

    @property
    def total_ms(self) -> int | None:
        return None if self.ended_at is None else self.ended_at - self.started_at

    @property
    def last_arrival(self) -> tuple[Arrival, int] | None:
        """Who joined last of several, and how long the others had waited for it alone."""
        if len(self.arrivals) < 2:
            return None
        before, last = list(self.arrivals.values())[-2:]
        return last, last.after_ms - before.after_ms

    @property
    def assigned_after_ms(self) -> int | None:
        """How long after the join phase the leader brought the assignment."""
        return next((sync.after_ms for sync in self.syncs if sync.member_id == self.leader), None)

    @property
    def unowned_ms(self) -> int:
        """The time without an owner of all partitions together."""
        return sum(one.until - one.since for one in self.unowned if one.until is not None)

    @property
    def longest_unowned_ms(self) -> int:
        return max((one.until - one.since for one in self.unowned if one.until is not None), default=0)

    @property
    def members_added(self) -> tuple[str, ...]:
        """Who is in its generation and was not in the one before."""
        renamed = {one.member_id for one in self.replacements}
        before = {*self.members_before, *renamed}
        return tuple(one for one in self.members if one not in before)

    @property
    def members_removed(self) -> tuple[str, ...]:
        """The members of the generation before that are not in this one; empty without a generation."""
        if self.generation is None:
            return ()
        renamed = {one.old_member_id for one in self.replacements}
        after = {*self.members, *renamed}
        return tuple(one for one in self.members_before if one not in after)


class Incident(NamedTuple):
    """Something between rebalances that is worth telling."""

    at: int
    event: str
    sentence: str


@dataclass(slots=True)
class Story:
    """What the journal tells of one group, oldest first."""

    group_id: str
    people: dict[str, StoryMember] = field(default_factory=dict)
    rebalances: list[Rebalance] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    unowned: list[Unowned] = field(default_factory=list)  # partitions that have no owner at the end
    removed: Cause | None = None  # why the group is gone, if it is
    dropped: int = 0
    unreadable: int = 0
    first_at: int | None = None

    def reaches_back(self, count: int) -> bool:
        """Whether the last ``count`` rebalances are complete, with what was before them.

        That takes one more rebalance, from the start of its generation on: it names the members.
        """
        if len(self.rebalances) <= count:
            return False
        before = self.rebalances[-count - 1]
        names_members = before.prepared_at is not None or before.end is End.EMPTY
        return names_members and all(one.is_whole for one in self.rebalances[-count:])

    def last(self, count: int) -> "Story":
        """The same with the last ``count`` rebalances only, and what happened since the first of them."""
        kept = self.rebalances[-count:]
        if len(kept) == len(self.rebalances):
            return self
        since = kept[0].started_at
        return Story(
            group_id=self.group_id,
            people=self.people,
            rebalances=kept,
            incidents=[one for one in self.incidents if one.at >= since],
            unowned=self.unowned,
            removed=self.removed,
            dropped=self.dropped,
            unreadable=self.unreadable,
            first_at=self.first_at,
        )
