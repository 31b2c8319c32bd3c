"""Everything a shard knows: the groups of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.coordination.positions import Positions
from kohort.coordination.purgatory import Purgatory
from kohort.coordination.timers import TimingWheel
from kohort.groups.classic.state import Group
from kohort.groups.commands import GroupConfigured
from kohort.groups.offsets.state import OffsetTable
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.topics import TopicCatalog
from kohort.model.ids import GroupId
from kohort.model.steady_time import SteadyTime

if TYPE_CHECKING:
    from kohort.groups.outcome import Outcome


@dataclass(slots=True, kw_only=True)
class State:
    """A shard's state. Groups and offsets change in ``apply`` alone; deadlines, positions and what is
    parked in the purgatories are the machinery's.
    """

    settings: GroupSettings
    wheel: TimingWheel
    heartbeats: Purgatory[Outcome]  # sessions, keyed by group and member
    rebalances: Purgatory[Outcome]  # join phases and sync phases, keyed by group
    housekeeping: Purgatory[Outcome]  # the retention sweep
    groups: dict[GroupId, Group] = field(default_factory=dict)
    members_bytes: int = 0  # memory the members and handed-out ids of all groups take, about
    offsets: OffsetTable = field(default_factory=OffsetTable)
    topics: TopicCatalog = field(default_factory=TopicCatalog)
    configs: dict[GroupId, GroupConfigured] = field(default_factory=dict)
    deletion_time: SteadyTime = field(default_factory=SteadyTime)
    positions: Positions[ReplyBody] = field(default_factory=Positions)
