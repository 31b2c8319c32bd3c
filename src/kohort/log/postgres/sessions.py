"""The session of a node: registered, renewed, watched by the others and watching them (cluster 2.1).

What is decided is decided by ``kohort.cluster.lease``; this module carries it out. Renewals have a connection
of their own, and nothing waits behind them.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import asyncpg

from kohort.cluster.lease import (
    Bury,
    DataLost,
    Effect,
    Fenced,
    Lapsed,
    Lease,
    LeaseTimes,
    SeenSession,
    Serving,
    SessionId,
)
from kohort.cluster.view import ListenerAddress, PartitionId
from kohort.log.postgres import sql
from kohort.log.postgres.burying import NodeWatch, bury
from kohort.log.postgres.connections import FAULTS, Connection, Database, Purpose, Slot, change, text_of
from kohort.log.postgres.schema import code_number
from kohort.model.ids import Instant, LeaderEpoch, NodeId

logger = logging.getLogger("kohort.session")

_LOOK_AGAIN_S = 0.2
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # without the former the latter counts sleep


def boot_clock() -> Instant:
    """Milliseconds since the machine started; this clock also runs while the machine sleeps."""
    return Instant(time.clock_gettime_ns(_CLOCK) // 1_000_000)


class NodeAddress(NamedTuple):
    """Where clients reach a node. ``node_id`` of ``None``: the lowest that is free.

    ``host`` and ``port`` are of the first listener; nodes of an older release know no other.
    """

    host: str
    port: int
    rack: str | None = None
    node_id: NodeId | None = None
    listeners: tuple[ListenerAddress, ...] = ()
    release: str = ""


class SessionListener(NamedTuple):
    """What a node does when its session changes. All are called on the loop."""

    polled: Callable[[int], None]  # with the version of the tables
    serving: Callable[[], None]
    lapsed: Callable[[], None]
    ended: Callable[[Effect], Awaitable[None]]  # fenced, or data is lost: drop everything; then comes another


class Session:
    """One node's session after another. ``step`` renews and looks around once; ``run`` does it for ever."""

    def __init__(
        self,
        database: Database,
        catalog: Slot,
        address: NodeAddress,
        times: LeaseTimes,
        clock: Callable[[], Instant] = boot_clock,
    ) -> None:
        self.database = database
        self.session = SessionId(-1)
        self.node_id = NodeId(-1)
        self.listener: SessionListener | None = None
        self._catalog = catalog
        self._address = address
        self._times = times
        self._clock = clock
        self._lease = Lease(times)
        self._connection: Connection | None = None
        self._is_out_of_touch = False
        self._has_lost_data = False  # the database has, and its tables do not say so yet
        self._has_left = False  # ended by the node itself: no other session begins

    def may_answer(self) -> bool:
        """Whether an answer that was made from memory before this look may leave."""
        return self._lease.may_answer(self._clock())

    def is_in_touch(self) -> bool:
        """Whether the database confirmed a renewal lately. Also true of a session that has ended.

        An append may be sent then: a row says who leads, so it is right or refused.
        """
        return self._clock() < self._lease.answers_until

    @property
    def window_s(self) -> float:
        return self._times.window_ms / 1_000

    @property
    def answered_until(self) -> Instant:
        """When the window closed, or will close if the session is not renewed."""
        return self._lease.answers_until

    async def connect(self) -> None:
        """Open the connection for renewals; one that breaks later is replaced."""
        self._connection = await self.database.connect(Purpose.LEASE)

    async def register(self) -> None:
        """Begin a session; waits while a living one has the node id that was asked for."""
        while not await self._try_to_register():
            logger.warning(
                "node %s is alive in %s; waiting until its session ends (if it is another node, start this"
                " one with another --node-id, or with none)",
                self._address.node_id,
                self.database,
            )
            await self._outlive_node_id()
        logger.info("session %d of node %d in %s", self.session, self.node_id, self.database)

    async def _try_to_register(self) -> bool:
        address = self._address
        async with self._catalog.use() as connection:
            try:
                async with change(connection, self.database.schema) as version:
                    if self._has_lost_data:
                        await connection.execute(sql.NOTE_DATA_LOSS)
                    living = {row[0] for row in await connection.fetch(sql.LIVING_NODE_IDS)}
                    node_id = address.node_id
                    if node_id is None and self.node_id >= 0 and self.node_id not in living:
                        node_id = self.node_id  # of the session before: clients know us by it
                    if node_id is None:
                        node_id = NodeId(next(each for each in range(len(living) + 1) if each not in living))
                    self.session = SessionId(
                        await connection.fetchval(
                            sql.REGISTER,
                            node_id,
                            address.host,
                            address.port,
                            address.rack,
                            code_number(),
                            self._times.lease_ms,
                            version,
                            json.dumps({name: [host, port] for name, host, port in address.listeners}),
                            address.release,
                        )
                    )
            except asyncpg.UniqueViolationError:
                return False
        self.node_id = node_id
        self._has_lost_data = False
        self._lease = Lease(self._times)
        return True

    async def _outlive_node_id(self) -> None:
        """Wait until no living session has our node id. One that is not renewed we bury: we may be alone."""
        assert self._address.node_id is not None, "any other number is free at once"
        watched = NodeWatch(self._catalog, self._address.node_id, self._clock)
        while not await watched.look():
            await watched.pause()

    async def step(self) -> None:
        """Renew the session, look at the others, and do what follows from it."""
        if self._has_left:
            return
        await self._do(self._tick())  # a window that closed while we were paused is not passed over
        try:
            connection = await self._connected()
            self._lease = self._lease.send(self._clock())
            async with asyncio.timeout(self.window_s):
                rows = await connection.fetch(sql.RENEW_AND_POLL, self.session)
        except FAULTS as error:
            if not self._is_out_of_touch:  # one line for an outage, not one for each attempt
                logger.warning("session %d could not be renewed: %s", self.session, text_of(error))
            self._is_out_of_touch = True
            self._give_connection_up()
            self._lease = self._lease.lose()
            await self._do(self._tick())
            return
        self._is_out_of_touch = False
        if self._lease.is_over:  # the node has left meanwhile
            return
        await self._do(self._tick())  # nor is one that closed while we waited for the reply
        others = [
            SeenSession(row["session"], row["renewals"], row["ttl_ms"], row["rest_ms"])
            for row in rows
            if row["session"] is not None and row["session"] != self.session
        ]
        self._lease, effects = self._lease.receive(rows[0]["mine"], others, self._clock())
        await self._do(effects)
        if self.listener is not None and not self._lease.is_over:
            self.listener.polled(rows[0]["version"])

    async def run(self) -> None:
        """Renew in every interval, until the node ends its session or this is cancelled."""
        while not self._has_left:
            begun, session = self._clock(), self.session
            await self.step()
            if self.session != session:
                continue  # a new one may answer after its first renewal
            at = self._lease.next_poll(begun)
            while (rest_ms := at - self._clock()) > 0:
                await self.pause(rest_ms)

    async def pause(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1_000)

    def _tick(self) -> list[Effect]:
        self._lease, effects = self._lease.tick(self._clock())
        return effects

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            if self._connection is not None:  # it broke by itself: what was not seen is not watched
                self._lease = self._lease.lose()
            timeout_s = self._times.renewal_ms * 2 / 1_000
            self._connection = await self.database.connect(Purpose.LEASE, timeout_s=timeout_s)
        return self._connection

    def _give_connection_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()

    async def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Serving():
                    if self.listener is not None:
                        self.listener.serving()
                case Lapsed():
                    logger.warning(
                        "the lease of session %d has lapsed: no answers until it is renewed", self.session
                    )
                    if self.listener is not None:
                        self.listener.lapsed()
                case Fenced() | DataLost():
                    await self._end(effect)
        burials = [each for each in effects if isinstance(each, Bury)]
        if burials:
            with suppress(TimeoutError):  # then the next poll, which must not be late, asks for them again
                async with asyncio.timeout(self._times.renewal_ms / 1_000):
                    for burial in burials:
                        await self._bury(burial)

    async def _end(self, effect: Effect) -> None:
        if isinstance(effect, DataLost):
            self._has_lost_data = True
            logger.error(
                "%s has forgotten a renewal that it had confirmed: it was restored or failed over, and the"
                " last records may be lost. All partitions of this node are taken again at a new epoch.",
                self.database,
            )
        else:
            logger.warning("session %d was declared dead by another node; a new one begins", self.session)
        if self.listener is not None:
            await self.listener.ended(effect)
        while not self._has_left:
            try:
                await self.register()
                return
            except FAULTS as error:
                logger.warning("a new session could not be registered: %s", text_of(error))
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _bury(self, burial: Bury) -> None:
        """Declare a session dead, unless it was renewed meanwhile."""
        try:
            async with self._catalog.use() as connection:
                is_dead = await bury(connection, self.database.schema, burial)
        except FAULTS as error:
            logger.warning("session %d could not be declared dead: %s", burial.session, text_of(error))
            return
        if is_dead:
            logger.warning("session %d is dead: it was not renewed", burial.session)

    async def announce_leaving(self) -> None:
        """From now on this node gives away and gets nothing."""
        async with self._catalog.use() as connection, change(connection, self.database.schema) as version:
            await connection.execute(sql.LEAVE, self.session, version)

    async def end(self) -> None:
        """The last word of a node: it answers nothing any more, for others may lead what it led."""
        self._has_left = True
        self._lease = self._lease.end()
        async with self._catalog.use() as connection, change(connection, self.database.schema) as version:
            await connection.execute(sql.END_SESSION, self.session, version)

    async def close(self) -> None:
        self._give_connection_up()

    # -- placement -------------------------------------------------------------------------------------

    async def take(self, partitions: Sequence[PartitionId]) -> dict[PartitionId, LeaderEpoch]:
        """Lead those of these partitions that no living session leads; at which epoch."""
        taken: dict[PartitionId, LeaderEpoch] = {}
        for chunk in _chunks(partitions, 500):
            async with self._catalog.use() as connection, change(connection, self.database.schema) as version:
                if not await connection.fetchval(sql.AM_I_ALIVE, self.session):
                    return taken
                rows = dict(await connection.fetch(sql.TAKE, self.session, chunk, version))
                await connection.execute(sql.NOTE_EPOCHS, list(rows), self.session)
            taken |= rows
        return taken

    async def take_again(
        self, partitions: Sequence[PartitionId], epochs: Sequence[LeaderEpoch], has_lost_data: bool = False
    ) -> dict[PartitionId, LeaderEpoch]:
        """Go on leading these partitions, at epochs above all that were ever in use."""
        async with self._catalog.use() as connection, change(connection, self.database.schema) as version:
            if has_lost_data:
                await connection.execute(sql.NOTE_DATA_LOSS)
            if not await connection.fetchval(sql.AM_I_NOT_DEAD, self.session):
                return {}
            rows = await connection.fetch(
                sql.TAKE_AGAIN, self.session, list(partitions), version, list(epochs)
            )
            await connection.execute(sql.NOTE_EPOCHS, [row[0] for row in rows], self.session)
        return dict(rows)

    async def hand_over(self, partitions: Sequence[PartitionId], to: SessionId) -> list[PartitionId]:
        """Let another session lead these partitions; those that it leads now."""
        async with self._catalog.use() as connection, change(connection, self.database.schema) as version:
            rows = await connection.fetch(sql.HAND_OVER, self.session, list(partitions), to, version)
        return [row[0] for row in rows]

    async def serve(self, partitions: Sequence[PartitionId]) -> None:
        """Let others know that these partitions are answered here."""
        async with self._catalog.use() as connection, change(connection, self.database.schema) as version:
            await connection.execute(sql.SERVE, self.session, list(partitions), version)


def _chunks(partitions: Sequence[PartitionId], size: int) -> list[list[PartitionId]]:
    ordered = sorted(partitions)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
