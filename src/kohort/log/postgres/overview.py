"""A cluster as its tables have it, for people who look after it: read without being a node."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from json import loads
from typing import NamedTuple

from kohort.log.postgres import sql
from kohort.log.postgres.connections import Connection, Database, Purpose
from kohort.log.postgres.schema import Migration, inspect, migrate


class NodeState(NamedTuple):
    """The last session of a node, and how much it leads."""

    node_id: int
    session: int
    address: str
    listeners: dict[str, str]  # addresses by the name of the listener
    state: str  # alive, leaving, dead
    ended: str | None  # of a dead one: lease, left, forgotten
    lease_left_ms: int
    started_at: str
    release: str
    code: int
    led: int
    loading: int
    shards: int  # of groups, that it leads
    data: int  # partitions of other topics, that it leads
    moved_here: int  # partitions that were moved to it by hand

    @property
    def is_alive(self) -> bool:
        return self.state != "dead"


class Overview(NamedTuple):
    """The whole cluster at one moment."""

    cluster_id: str
    schema_version: int
    nodes: list[NodeState]
    database: str  # version of PostgreSQL
    has_synchronous_standby: bool
    oldest_transaction_s: float  # old rows stay until it ends
    topics: int
    partitions: int
    orphans: int  # partitions that no living node leads
    loading: int  # partitions whose leader does not answer yet
    moving: int  # partitions that are about to go to another node
    changes_in_last_hour: int  # partitions that got another leader, or a higher epoch
    data_lost_at: str | None  # when a node last noticed that the database forgot what it had confirmed
    latency_ms: float  # of one statement

    @property
    def is_led(self) -> bool:
        """Whether every partition has a leader that answers, and none is about to move."""
        return not (self.orphans or self.loading or self.moving) and any(
            each.state == "alive" for each in self.nodes
        )

    @property
    def is_balanced(self) -> bool:
        """Whether nodes share partitions evenly. What was moved by hand may differ."""
        staying = [each for each in self.nodes if each.state == "alive"]
        if not staying or any(each.moved_here for each in staying):
            return True
        counts = ([each.shards for each in staying], [each.data for each in staying])
        return all(max(of_kind) - min(of_kind) < 2 for of_kind in counts)


async def look(database: Database) -> Overview:
    """Raises ``DatabaseError``; changes nothing."""
    async with connected(database) as connection:
        schema = await inspect(connection, database)
        nodes = [_node(row) for row in await connection.fetch(sql.NODES)]
        *row, lost_at = await connection.fetchrow(sql.OVERVIEW)
        begun = time.perf_counter()
        await connection.fetchrow(sql.VERSION)
        latency_ms = round((time.perf_counter() - begun) * 1_000, 2)
        return Overview._make((schema.cluster_id, schema.version, nodes, *row, _moment(lost_at), latency_ms))


def _node(row: tuple[object, ...]) -> NodeState:
    node_id, session, host, port, listeners, state, ended, left_ms, started_at, *rest = row
    assert isinstance(listeners, str)
    assert isinstance(started_at, datetime)
    found = {name: f"{where[0]}:{where[1]}" for name, where in loads(listeners).items()}
    since = _moment(started_at)
    return NodeState(node_id, session, f"{host}:{port}", found, state, ended, left_ms, since, *rest)  # type: ignore[arg-type] # a row


def _moment(found: datetime | None) -> str | None:
    return None if found is None else found.isoformat(timespec="seconds")


async def update_schema(database: Database) -> list[Migration]:
    """Make the tables, or bring them up to date; what was done."""
    async with connected(database) as connection:
        return await migrate(connection, database)


@asynccontextmanager
async def connected(database: Database) -> AsyncIterator[Connection]:
    """A connection for one command. Raises ``DatabaseError``."""
    with database.named():
        connection = await database.connect(Purpose.ADMIN)
        try:
            yield connection
        finally:
            await connection.close()
