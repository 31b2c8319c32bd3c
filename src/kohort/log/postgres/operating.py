"""What people do to a cluster by hand. Nodes find it in the tables and carry it out."""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.log.postgres import sql
from kohort.log.postgres.burying import FORGOTTEN, NodeWatch
from kohort.log.postgres.connections import Connection, Database, DatabaseError, Purpose, Slot, change
from kohort.log.postgres.overview import connected
from kohort.log.postgres.schema import inspect
from kohort.log.postgres.sessions import boot_clock
from kohort.model.ids import NodeId, Partition, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL, TopicPartition
from kohort.primitives.strings import partition_for

_LIST_THEM = "`kohort cluster nodes` lists the nodes"


class PartitionPlace(NamedTuple):
    """A partition and the node that leads it, if one does."""

    topic: str
    partition: int
    node_id: int | None
    leader_epoch: int
    is_served: bool
    assigned: int | None

    def is_at(self, node: int) -> bool:
        """Whether a node leads it and answers for it."""
        return self.node_id == node and self.is_served


async def drain(database: Database, node_id: int) -> None:
    """Have a node give away all that it leads, and get nothing; its process goes on."""
    async with connected(database) as connection:
        await inspect(connection, database)
        async with change(connection, database.schema) as version:
            if await connection.fetchval(sql.DRAIN, node_id, version) is None:
                raise _no_node(database, node_id)


async def move(
    database: Database, node_id: int, partitions: Iterable[TopicPartition | TopicName], groups: Iterable[str]
) -> list[TopicPartition]:
    """Have a node lead partitions, topics, and the coordinators of groups; which partitions these are.

    They stay there until the node goes, or until ``balance``.
    """
    async with connected(database) as connection:
        await inspect(connection, database)
        async with change(connection, database.schema) as version:
            await _check_alive(connection, database, node_id)
            wanted = await _wanted(connection, database, partitions, groups)
            names, numbers = [each.topic for each in wanted], [each.partition for each in wanted]
            await connection.execute(sql.MOVE, version, node_id, names, numbers)
    return wanted


async def places(database: Database, partitions: Iterable[TopicPartition]) -> list[PartitionPlace]:
    """Where partitions are now; those that were deleted are missing."""
    wanted = set(partitions)
    async with connected(database) as connection:
        rows = await connection.fetch(sql.PLACES, sorted({each.topic for each in wanted}))
    found = [PartitionPlace(*row) for row in rows]
    return [each for each in found if (each.topic, each.partition) in wanted]


async def balance(database: Database, *, now: bool) -> None:
    """Forget moves by hand, so that partitions are spread evenly; with ``now``, without a delay."""
    async with connected(database) as connection:
        await inspect(connection, database)
        async with change(connection, database.schema) as version:
            await connection.execute(sql.FORGET_MOVES, version)
            if now:
                await connection.execute(sql.BALANCE_NOW)


async def forget(database: Database, node_id: int) -> None:
    """Declare a node dead that shows no sign of life: watches it first, like a node."""
    async with connected(database) as connection:
        await inspect(connection, database)
    slot = Slot(database, Purpose.ADMIN)
    watched = NodeWatch(slot, NodeId(node_id), boot_clock)
    try:
        with database.named():
            if await watched.look(FORGOTTEN):
                raise _no_node(database, node_id)
            while True:
                await watched.pause()
                if await watched.look(FORGOTTEN):
                    return
                if watched.renewed is not None:
                    raise DatabaseError(
                        f"{database}: node {node_id} is alive: it renews its lease",
                        hint="stop its process first; `kohort cluster drain` has it hand over what it leads",
                    )
    finally:
        await slot.close()


async def _wanted(
    connection: Connection,
    database: Database,
    partitions: Iterable[TopicPartition | TopicName],
    groups: Iterable[str],
) -> list[TopicPartition]:
    named, moved = list(partitions), list(groups)
    topics = {each.topic if isinstance(each, TopicPartition) else each for each in named}
    if JOURNAL in topics:
        raise DatabaseError(
            f"{database}: partitions of {JOURNAL} go where those of {CONSUMER_OFFSETS} go",
            hint=f"move the partitions with the same numbers of {CONSUMER_OFFSETS}",
        )
    rows = await connection.fetch(sql.PLACES, sorted(topics | {CONSUMER_OFFSETS}))
    known = [TopicPartition(TopicName(row[0]), Partition(row[1])) for row in rows]
    shards = sum(each.topic == CONSUMER_OFFSETS for each in known)
    if moved and not shards:
        raise DatabaseError(f"{database}: there are no groups yet, so none has a coordinator")
    wanted: dict[TopicPartition, None] = {}
    for each in named:
        found = [one for one in known if each in (one, one.topic)]
        if not found:
            what = f"partition {each}" if isinstance(each, TopicPartition) else f"topic {each!r}"
            raise DatabaseError(f"{database}: there is no {what}", hint="`kohort topics list` lists them")
        wanted.update(dict.fromkeys(found))
    for group in moved:
        shard = Partition(partition_for(group, shards))
        wanted[TopicPartition(TopicName(CONSUMER_OFFSETS), shard)] = None
    return list(wanted)


async def _check_alive(connection: Connection, database: Database, node_id: int) -> None:
    living = {row["node_id"]: row["state"] for row in await connection.fetch(sql.LIVING)}
    if node_id not in living:
        raise _no_node(database, node_id)
    if living[node_id] != "alive":
        raise DatabaseError(
            f"{database}: node {node_id} hands over what it leads, and gets nothing",
            hint="start it again, or choose another node",
        )


def _no_node(database: Database, node_id: int) -> DatabaseError:
    return DatabaseError(f"{database}: there is no node {node_id} that is alive", hint=_LIST_THEM)
