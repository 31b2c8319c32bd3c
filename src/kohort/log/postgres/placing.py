"""A node's part in the placement: it takes and gives what its own lines of the plan say (cluster 2.2).

Who leads what is planned by ``kohort.cluster.placement`` on every node; the database settles the rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import asyncpg

from kohort.cluster.lease import SessionId
from kohort.cluster.placement import Moves, plan
from kohort.cluster.view import ClusterSnapshot, PartitionId
from kohort.log.postgres.sessions import Session, boot_clock
from kohort.log.postgres.tables import without_leader
from kohort.model.ids import Instant, LeaderEpoch

REBALANCE_DELAY_MS = 10_000
_HAND_OVER_AT_ONCE = 50


class Views(NamedTuple):
    """The view of a node: as it is, as the tables have it now, and how it is replaced."""

    current: Callable[[], ClusterSnapshot]
    refresh: Callable[[], Awaitable[None]]
    publish: Callable[[ClusterSnapshot], None]


class Placing:
    """What one node takes and gives away. One round at a time."""

    def __init__(self, session: Session, views: Views) -> None:
        self.rebalance_delay_ms = REBALANCE_DELAY_MS
        self._session = session
        self._views = views
        self._lock = asyncio.Lock()
        self._over: SessionId | None = None  # the last session of ours that was fenced or forgotten
        self._giving: dict[PartitionId, LeaderEpoch] = {}  # not ours any more, though the tables may say so
        self._orphans: dict[PartitionId, Instant] = {}  # since when we see them without a leader
        self._nodes_changed_at = boot_clock()
        self._balance: int | None = None  # the last time that an administrator asked for it
        self._served: dict[PartitionId, None] = {}  # the tables do not say so yet

    def nodes_changed(self) -> None:
        """A node has come or gone: partitions are not spread evenly for a while."""
        self._nodes_changed_at = boot_clock()

    def balance_asked(self, version: int) -> None:
        """``kohort cluster balance --now`` was run when the tables were at this version: do not wait."""
        if self._balance is not None and version != self._balance:
            self._nodes_changed_at = Instant(self._nodes_changed_at - self.rebalance_delay_ms)
        self._balance = version

    def masked(self, view: ClusterSnapshot) -> ClusterSnapshot:
        """The view without what we must not answer for, though the tables may say that we lead it.

        That is what we give away just now (the outcome may be unknown), and all of a session that is over.
        """
        for partition_id, epoch in list(self._giving.items()):
            placed = view.partitions.get(partition_id)
            if placed is None or placed.leader != self._session.session or placed.leader_epoch > epoch:
                del self._giving[partition_id]
        hidden = set(self._giving)
        if self._over is not None:
            hidden |= {each.partition_id for each in view.partitions.values() if each.leader == self._over}
        return without_leader(view, hidden)

    def session_ended(self) -> None:
        """Nothing is led by this node any more, whatever the tables still say."""
        self._over = self._session.session
        self._giving = {}
        self._views.publish(self.masked(self._views.current()))

    async def place(self) -> None:
        """Do this node's lines of the plan."""
        async with self._lock:
            if self._giving:  # a hand-over failed, and it is not known how: what is still ours is led again
                await self.take_again(list(self._giving), list(self._giving.values()))
            moves = self._plan()
            if moves.take:
                await self._session.take(moves.take)
                await self._views.refresh()
            for receiver in set(moves.give.values()):
                given = [each for each, to in moves.give.items() if to == receiver]
                for first in range(0, len(given), _HAND_OVER_AT_ONCE):
                    await self.hand_over(given[first : first + _HAND_OVER_AT_ONCE], receiver)

    @property
    def has_something_to_give(self) -> bool:
        return bool(self._plan().give)

    def _plan(self) -> Moves:
        now, view = boot_clock(), self._views.current()
        orphans = [each.partition_id for each in view.partitions.values() if view.leader_of(each) is None]
        self._orphans = {each: self._orphans.get(each, now) for each in orphans if each not in self._giving}
        is_settled = now - self._nodes_changed_at >= self.rebalance_delay_ms
        return plan(
            view,
            self._session.session,
            orphaned_ms=lambda each: now - self._orphans.get(each, now),
            is_settled=is_settled,
        )

    async def hand_over(self, partitions: list[PartitionId], to: SessionId) -> None:
        """Let another node lead these partitions; from now on, this one says nothing about them."""
        view, session = self._views.current(), self._session.session
        mine = [view.partitions[each] for each in partitions if each in view.partitions]
        self._giving |= {each.partition_id: each.leader_epoch for each in mine if each.leader == session}
        self._views.publish(without_leader(view, self._giving))
        try:
            given = await self._session.hand_over(partitions, to)
        except asyncpg.PostgresError:
            given = []  # rolled back
        refused = {
            each: self._giving[each] for each in partitions if each not in given and each in self._giving
        }
        if refused:  # the receiver is gone: lead them again, at an epoch that no answer of before belongs to
            await self.take_again(list(refused), list(refused.values()))
        await self._views.refresh()

    async def take_again(
        self, partitions: Sequence[PartitionId], epochs: Sequence[LeaderEpoch], has_lost_data: bool = False
    ) -> None:
        """Lead partitions at higher epochs, so that nothing proposed before can be stored; if still ours."""
        await self._session.take_again(partitions, epochs, has_lost_data)
        await self._views.refresh()

    def note_served(self, partitions: Iterable[PartitionId]) -> None:
        """These are answered here; ``tell_served`` writes it down."""
        self._served.update(dict.fromkeys(partitions))

    async def tell_served(self) -> None:
        if self._served:
            served = list(self._served)
            await self._session.serve(served)
            for each in served:
                self._served.pop(each, None)
            await self._views.refresh()
