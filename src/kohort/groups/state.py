"""Everything a shard knows: the groups of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.groups.classic.state import Group
from kohort.groups.offsets.state import OffsetTable
from kohort.groups.purgatory import Purgatory
from kohort.groups.settings import GroupSettings
from kohort.groups.timers import TimingWheel
from kohort.groups.writes import InFlight, Write
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
    deletion_time: SteadyTime = field(default_factory=SteadyTime)
    position: int = 0  # of the newest batch handed to the log
    in_flight: dict[int, InFlight] = field(default_factory=dict)  # by position, oldest first

    def writes_in_flight(self) -> Iterator[Write]:
        """What is to happen when the log has taken what it was handed, oldest first."""
        for batch in self.in_flight.values():
            yield from batch.writes
