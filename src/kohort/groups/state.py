"""Everything a shard knows: the groups of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.coordination.positions import Positions
from kohort.coordination.purgatory import Purgatory
from kohort.coordination.timers import TimingWheel
from kohort.groups.classic.state import Group
from kohort.groups.commands import GroupConfigured
from kohort.groups.consumer.state import ConsumerGroup
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
    deletion_time: SteadyTime
    groups: dict[GroupId, Group | ConsumerGroup] = field(default_factory=dict)
    members_bytes: int = 0  # memory the members and handed-out ids of all groups take, about
    offsets: OffsetTable = field(default_factory=OffsetTable)
    topics: TopicCatalog = field(default_factory=TopicCatalog)
    configs: dict[GroupId, GroupConfigured] = field(default_factory=dict)
    positions: Positions[ReplyBody] = field(default_factory=Positions)

    def classic(self, group_id: GroupId) -> Group:
        """A classic group that is known to be there."""
        group = self.groups[group_id]
        assert isinstance(group, Group), f"group {group_id!r} is a consumer group"
        return group

    def consumer(self, group_id: GroupId) -> ConsumerGroup | None:
        """The consumer group of this id, if there is one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """How long a member of a consumer group may be silent."""
        config = self.configs.get(group_id)
        own = None if config is None else config.session_timeout_ms
        return self.settings.consumer_session_timeout_ms if own is None else own

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """How often a member of a consumer group is to send a heartbeat."""
        config = self.configs.get(group_id)
        own = None if config is None else config.heartbeat_interval_ms
        return self.settings.consumer_heartbeat_interval_ms if own is None else own
