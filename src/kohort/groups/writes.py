"""What a shard has handed to the log and not heard of yet, and what is to happen then.

A write is remembered as plain values, not as a callback: state can be copied, compared and explored.
``settle.py`` knows what each kind of write leads to.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from kohort.groups.commands import DescribeGroup, FetchOffsets, ListGroups, Protocol
from kohort.groups.events import DurableEvent, GroupRestored
from kohort.groups.replies import (
    CommitReply,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    JoinReply,
    LeaveReply,
    Reply,
)
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, ReplyTo


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentWrite:
    """The leader's assignment. Stored, it makes the group stable; failed, it starts over
    (classic-groups 4.3)."""

    group_id: GroupId
    generation: Generation
    assignments: tuple[tuple[MemberId, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementWrite:
    """A static member's new id in a stable group. Failed, the old id comes back (classic-groups 3.8)."""

    group_id: GroupId
    instance_id: InstanceId
    member_id: MemberId
    reply_to: ReplyTo
    stored: JoinReply
    failed: JoinReply  # its error is still to be filled in
    old_member_id: MemberId
    old_protocols: tuple[Protocol, ...]
    old_session_timeout_ms: int
    old_rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveWrite:
    """The empty generation that a LeaveGroup led to; its answer waits for it."""

    reply_to: ReplyTo
    reply: LeaveReply


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWrite:
    """Committed offsets. ``made_group``: the commit found no group, and leaves none if it fails."""

    group_id: GroupId
    reply_to: ReplyTo
    reply: CommitReply
    made_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsWrite:
    """Tombstones an administrator asked for."""

    reply_to: ReplyTo
    reply: DeleteOffsetsReply


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalWrite:
    """The tombstones of groups. Failed, the groups come back as ``undo`` says."""

    undo: tuple[GroupRestored, ...]
    reply_to: ReplyTo | None = None  # None: retention did it, nobody asked
    reply: DeleteGroupsReply | None = None


Write: TypeAlias = (
    AssignmentWrite | ReplacementWrite | LeaveWrite | CommitWrite | DeleteOffsetsWrite | RemovalWrite
)
Read: TypeAlias = DescribeGroup | ListGroups


@dataclass(slots=True)
class InFlight:
    """One atomic batch on its way to the log, and everyone who waits for it."""

    position: int
    events: tuple[DurableEvent, ...]
    writes: tuple[Write, ...]
    reads: list[tuple[Read, Reply]] = field(default_factory=list)  # made again if the batch fails
    stable_fetches: list[FetchOffsets] = field(default_factory=list)  # made when the batch is settled
