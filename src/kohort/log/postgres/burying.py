"""Declaring a session dead that was not renewed: by any node, by one that wants its number, by a person.

All of them watch it first, and compare what they saw with the table (cluster 2.1).
"""

import asyncio
from collections.abc import Callable

from kohort.cluster.lease import Bury, SeenSession, SessionId, Watches, watch
from kohort.log.postgres import sql
from kohort.log.postgres.connections import Connection, Slot, change
from kohort.model.ids import Instant, NodeId

LEASE_ENDED, FORGOTTEN = "lease", "forgotten"  # as the tables have it
_LOOK_AGAIN_S = 0.2
_LONGEST_GAP_MS = 1_000  # between two looks that count as one watch


class _RenewedError(Exception):
    """The session lives after all: what was begun is rolled back."""


async def bury(connection: Connection, schema: str, burial: Bury, ended: str = LEASE_ENDED) -> bool:
    """Mark a session as dead, unless it was renewed meanwhile; whether it is dead now. Raises ``FAULTS``."""
    try:
        async with change(connection, schema) as version:
            if await connection.fetchval(sql.BURY, burial.session, burial.renewals, version, ended) is None:
                raise _RenewedError
    except _RenewedError:
        return False
    return True


class NodeWatch:
    """Watches the living session of one node id from outside, on one connection."""

    def __init__(self, slot: Slot, node_id: NodeId, clock: Callable[[], Instant]) -> None:
        self._slot = slot
        self._node_id = node_id
        self._clock = clock
        self._connection: Connection | None = None
        self._watches: Watches = ()
        self._polled_at: Instant | None = None
        self.seen: SeenSession | None = None
        self.renewed: SessionId | None = None  # the session that was renewed while we watched

    async def look(self, ended: str = LEASE_ENDED) -> bool:
        """Look once, and bury a session that was not renewed for its whole watch. Whether none lives now."""
        async with self._slot.use() as connection:
            row = await connection.fetchrow(sql.LIVING_SESSION_OF, self._node_id)
            if row is None:
                self.seen = None
                return True
            if connection is not self._connection:  # what was not seen is not watched
                self._connection, self._polled_at = connection, None
            before, self.seen = self.seen, SeenSession(*row)
            if before is not None and before[:1] == self.seen[:1] and before.renewals != self.seen.renewals:
                self.renewed = self.seen.session
            now = self._clock()
            self._watches, burials = watch(self._watches, [self.seen], now, self._polled_at, _LONGEST_GAP_MS)
            self._polled_at = now
            for burial in burials:
                await bury(connection, self._slot.database.schema, burial, ended)
        return False

    async def pause(self) -> None:
        await asyncio.sleep(_LOOK_AGAIN_S)
