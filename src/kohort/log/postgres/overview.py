"""A cluster as its tables have it, for people who look after it: read without being a node."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from kohort.log.postgres import sql
from kohort.log.postgres.connections import Connection, Database, DatabaseError, Purpose, change
from kohort.log.postgres.schema import Migration, migrate, prepare


class NodeState(NamedTuple):
    """A session that is not dead, and how much it leads."""

    node_id: int
    session: int
    address: str
    state: str  # alive, leaving
    lease_left_ms: int
    code: int
    led: int
    loading: int


class Overview(NamedTuple):
    """The whole cluster at one moment."""

    cluster_id: str
    schema_version: int
    nodes: list[NodeState]
    database: str  # version of PostgreSQL
    has_synchronous_standby: bool
    topics: int
    partitions: int
    orphans: int  # partitions that no living node leads


async def look(database: Database) -> Overview:
    """Raises ``DatabaseError``; changes nothing but that it makes the tables of an empty schema."""
    async with _connected(database) as connection:
        schema = await prepare(connection, database)
        row = await connection.fetchrow(sql.OVERVIEW)
        nodes = [NodeState(*each) for each in await connection.fetch(sql.NODES)]
        return Overview(schema.cluster_id, schema.version, nodes, *row)


async def drain(database: Database, node_id: int) -> None:
    """Have a node give away all that it leads, and get nothing; its process goes on."""
    async with _connected(database) as connection, change(connection, database.schema) as version:
        if await connection.fetchval(sql.DRAIN, node_id, version) is None:
            raise DatabaseError(
                f"{database}: there is no node {node_id} that is alive",
                hint="`kohort cluster status` lists the nodes",
            )


async def update_schema(database: Database) -> list[Migration]:
    """Make the tables, or bring them up to date; what was done."""
    async with _connected(database) as connection:
        return await migrate(connection, database)


@asynccontextmanager
async def _connected(database: Database) -> AsyncIterator[Connection]:
    with database.named():
        connection = await database.connect(Purpose.ADMIN)
        try:
            yield connection
        finally:
            await connection.close()
