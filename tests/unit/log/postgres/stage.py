"""A cluster with one topic, as rows, and connections that break where a test wants it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto
from typing import Any
from uuid import uuid4

import asyncpg

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.log.postgres.connections import Connection, Database, Purpose
from kohort.log.postgres.lanes import Lane, LaneOwner, Proposal, Refused, Stored
from kohort.log.postgres.resolve import LedPartition
from kohort.log.postgres.schema import prepare
from kohort.model.ids import LeaderEpoch, Offset

EPOCH = LeaderEpoch(0)


class Stage:
    """Tables with sessions and partitions; ``admin`` looks at them and changes them by hand."""

    def __init__(self, database: Database, admin: Connection) -> None:
        self.database = database
        self.admin = admin
        self.topic_id = uuid4()
        self.partitions: list[PartitionId] = []

    async def add_session(self, node_id: int = 0, *, lease_ms: int = 3_000) -> SessionId:
        return SessionId(
            await self.admin.fetchval(
                "INSERT INTO sessions (node_id, host, port, code, ttl_ms, expires_at, version)"
                " VALUES ($1, 'localhost', 9092, 1, $2, clock_timestamp() + interval '3 s', 1)"
                " RETURNING session",
                node_id,
                lease_ms,
            )
        )

    async def add_partitions(self, count: int, leader: SessionId | None, name: str = "events") -> None:
        await self.admin.execute(
            "INSERT INTO topics (topic_id, name, collision_key, partitions, version)"
            " VALUES ($1, $2, $2, $3, 1)",
            self.topic_id,
            name,
            count,
        )
        rows = await self.admin.fetch(
            "INSERT INTO partitions (topic_id, partition, leader, leader_epoch, version)"
            " SELECT $1, n, $2, 0, 1 FROM generate_series(0, $3::int - 1) AS n RETURNING partition_id",
            self.topic_id,
            leader,
            count,
        )
        self.partitions = sorted(row[0] for row in rows)

    async def stored(self, partition: PartitionId) -> list[tuple[int, int, bytes]]:
        rows = await self.admin.fetch(
            "SELECT base_offset, last_offset, records FROM batches WHERE partition_id = $1"
            " ORDER BY base_offset",
            partition,
        )
        return [tuple(row) for row in rows]


def on_stage(database: Database, story: Callable[[Stage], Awaitable[None]]) -> None:
    """Run a story with the tables of a new cluster."""

    async def main() -> None:
        admin = await database.connect(Purpose.MAINTENANCE)
        try:
            await prepare(admin, database)
            await story(Stage(database, admin))
        finally:
            await admin.close()

    asyncio.run(main())


class Outcomes:
    """Makes proposals and remembers how each was settled."""

    def __init__(self) -> None:
        self.settled: dict[bytes, Stored | Refused] = {}
        self.all_settled = asyncio.Event()
        self._open = 0

    def proposal(
        self, partition: PartitionId, base: int, content: bytes, *, epoch: LeaderEpoch = EPOCH, count: int = 1
    ) -> Proposal:
        self._open += 1
        self.all_settled.clear()

        def settle(outcome: Stored | Refused) -> None:
            assert content not in self.settled, f"{content!r} is settled twice"
            self.settled[content] = outcome
            self._open -= 1
            if not self._open:
                self.all_settled.set()

        return Proposal(partition, epoch, Offset(base), Offset(base + count - 1), 5, 5, content, settle)

    @property
    def stored(self) -> list[bytes]:
        return [content for content, outcome in self.settled.items() if isinstance(outcome, Stored)]


class Break(Enum):
    """How a connection breaks at a statement."""

    BEFORE = auto()  # the server never gets it
    AFTER = auto()  # it is done, and its reply is lost
    ZOMBIE = auto()  # it is done by a transaction that is still open; ``finish`` ends it


class Breaking:
    """Connections of a lane that break at the n-th statement, counted over all of them."""

    def __init__(self, stage: Stage, at: int, how: Break) -> None:
        self._stage = stage
        self._at = at
        self._how = how
        self.statements = 0
        self.zombie: Connection | None = None
        self.has_zombie = asyncio.Event()
        self.error: Exception = asyncpg.ConnectionDoesNotExistError("connection was closed")
        self.broken: Callable[[], None] = lambda: None  # called when it breaks

    async def connect(self) -> Connection:
        return _BreakingConnection(await self._stage.database.connect(Purpose.LANE), self)

    async def meet(self, connection: Connection, query: str, arguments: tuple[object, ...]) -> list[Any]:
        self.statements += 1
        if self.statements != self._at:
            return await connection.fetch(query, *arguments)
        if self._how is Break.AFTER:
            await connection.fetch(query, *arguments)
        if self._how is Break.ZOMBIE:
            self.zombie = await self._stage.database.connect(Purpose.LANE)
            await self.zombie.execute("SET idle_in_transaction_session_timeout = 0; BEGIN")
            await self.zombie.fetch(query, *arguments)
            self.has_zombie.set()
        self.broken()
        raise self.error

    async def finish(self, *, commit: bool) -> None:
        """End the zombie, once something waits for it."""
        await self.has_zombie.wait()
        assert self.zombie is not None
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not await self._stage.admin.fetchval(blocked):
            pass
        await self.zombie.execute("COMMIT" if commit else "ROLLBACK")
        await self.zombie.close()


class _BreakingConnection:
    def __init__(self, connection: Connection, breaking: Breaking) -> None:
        self._connection = connection
        self._breaking = breaking

    async def fetch(self, query: str, *arguments: object) -> list[Any]:
        return await self._breaking.meet(self._connection, query, arguments)

    async def execute(self, query: str, *arguments: object) -> str:
        return await self._connection.execute(query, *arguments)

    async def fetchrow(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - a row
        return await self._connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - a value
        return await self._connection.fetchval(query, *arguments)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return self._connection.transaction()

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None:
        await self._connection.add_listener(channel, callback)

    def is_closed(self) -> bool:
        return self._connection.is_closed()

    async def close(self) -> None:
        await self._connection.close()

    def terminate(self) -> None:
        self._connection.terminate()


class Bench:
    """A lane for partitions that one session leads, and what became of its appends."""

    breaking: Breaking

    def __init__(
        self, stage: Stage, session: SessionId, connect: Callable[[], Awaitable[Connection]]
    ) -> None:
        self.stage = stage
        self.outcomes = Outcomes()
        self.may_wait = True
        self.led: list[LedPartition] = []
        self.lost: list[PartitionId] = []
        self.warnings: list[str] = []
        self.find_led: Callable[[], list[LedPartition]] = lambda: self.led
        owner = LaneOwner(
            lambda: session,
            connect,
            lambda: self.may_wait,
            lambda: self.find_led(),
            self.lost.extend,
            self.warnings.append,
        )
        self.lane = Lane(owner)

    async def append(self, *batches: tuple[int, int, bytes], epoch: LeaderEpoch = EPOCH) -> None:
        """Append batches given as (number of the partition, base offset, content), and wait for all."""
        partitions = self.stage.partitions
        self.lane.submit(
            self.outcomes.proposal(partitions[number], base, content, epoch=epoch)
            for number, base, content in batches
        )
        await self.outcomes.all_settled.wait()
