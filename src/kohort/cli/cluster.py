"""``kohort cluster``: the brokers of any cluster; nodes that share a PostgreSQL, and what is done to them."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kohort.cli.brokers import cluster as show_brokers
from kohort.cli.groups.topic_partitions import parse_topic_parts
from kohort.cli.running import FAILED, OK
from kohort.cli.screen import Column, TextTable, note, say, show_facts, show_json, show_table
from kohort.cli.serve.options import cluster_url
from kohort.cli.session import AsJson, ClusterOptions, on_cluster, refuse, run_command
from kohort.model.errors import KohortError
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from kohort.log.postgres.connections import Database
    from kohort.log.postgres.operating import PartitionPlace
    from kohort.log.postgres.overview import NodeState, Overview

_Found = TypeVar("_Found")
_LOOK_AGAIN_S = 0.1
app = typer.Typer(invoke_without_command=True, help=show_brokers.__doc__)

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        envvar="KOHORT_CLUSTER",
        help="postgresql://USER@HOST/DATABASE?schema=NAME of the nodes, or @FILE that has it.",
        show_default=False,
    ),
]
NodeNumber = Annotated[
    int, typer.Argument(metavar="NODE", help="The number of the node.", show_default=False)
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.")]


@app.callback()
@on_cluster
def cluster(
    where: ClusterOptions,
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is None:
        show_brokers(where, as_json)


@app.command()
def status(
    url: Url,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until every partition has a leader that answers.")
    ] = False,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="With --wait: also until nodes share partitions evenly.")
    ] = False,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, metavar="N", help="With --wait: also until N nodes are alive.")
    ] = 1,
    timeout: Timeout = 60.0,
    as_json: AsJson = False,
) -> None:
    """Show the nodes that share a PostgreSQL, what each leads, and what none leads.

    With --wait the exit code is 1 if it takes longer than --timeout.
    """

    async def command(database: "Database") -> int:
        from kohort.log.postgres.overview import look

        def is_ready(found: "Overview") -> bool:
            alive = sum(each.is_alive for each in found.nodes)
            return found.is_led and alive >= nodes and (found.is_balanced or not balanced)

        async def look_again() -> "Overview":
            return await look(database)

        found, in_time = await _until(look_again, is_ready, timeout if wait else 0.0)
        if as_json:
            show_json(_document(found))
        else:
            _show(found)
        if wait and not in_time:
            note(f"not ready after {timeout:g} s: {_what_is_missing(found, nodes)}")
            return FAILED
        return OK

    _on_database(url, command)


@app.command("nodes")
def list_nodes(url: Url, as_json: AsJson = False) -> None:
    """List the nodes: state, lease, addresses, partitions led, release. Dead ones stay for a day."""

    async def command(database: "Database") -> int:
        from kohort.log.postgres.overview import look

        found = await look(database)
        if as_json:
            show_json([each._asdict() for each in found.nodes])
        else:
            show_table(_node_table(found.nodes), empty="no node has ever been here")
        return OK

    _on_database(url, command)


@app.command()
def move(
    node: NodeNumber,
    url: Url,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:0,1,…]", help="A topic, or some of its partitions."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="GROUP", help="A group: its coordinator moves."),
    ] = None,
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Have a node lead partitions, or coordinate groups; waits until it does.

    They stay there until the node goes, or until `kohort cluster balance`. All groups that share a shard of
    __consumer_offsets move with it.
    """
    if not topic and not group:
        raise refuse("nothing to move", "name it with --topic TOPIC[:0,1,…] or --group GROUP")
    parts = [parse_topic_parts(text) for text in topic or ()]

    async def command(database: "Database") -> int:
        from kohort.log.postgres import operating

        named: list[TopicPartition | TopicName] = []
        for part in parts:
            named += part.named() or [part.topic]
        moved = await operating.move(database, node, named, group or ())

        async def look_again() -> "list[PartitionPlace]":
            return await operating.places(database, moved)

        found, in_time = await _until(
            look_again, lambda places: all(each.is_at(node) for each in places), timeout
        )
        if as_json:
            show_json([each._asdict() for each in found])
        else:
            show_table(_place_table(found), empty="nothing was moved")
        if not in_time:
            note(f"not done after {timeout:g} s; it goes on: `kohort cluster status --wait` waits for it")
        return OK if in_time else FAILED

    _on_database(url, command)


@app.command()
def balance(
    url: Url,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for kohort.cluster.rebalance.delay.ms.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Spread partitions evenly again, also those that were moved by hand."""

    async def command(database: "Database") -> int:
        from kohort.log.postgres import operating

        await operating.balance(database, now=now)
        _done(
            {"balance": True, "now": now},
            "partitions are spread again; see `kohort cluster status --wait --balanced`",
            as_json=as_json,
        )
        return OK

    _on_database(url, command)


@app.command()
def drain(node: NodeNumber, url: Url, as_json: AsJson = False) -> None:
    """Have a node hand over everything that it leads. It leads nothing until it is started again."""

    async def command(database: "Database") -> int:
        from kohort.log.postgres import operating

        await operating.drain(database, node)
        _done(
            {"node_id": node, "state": "leaving"},
            f"node {node} hands over what it leads; see `kohort cluster status --wait`",
            as_json=as_json,
        )
        return OK

    _on_database(url, command)


@app.command()
def forget(node: NodeNumber, url: Url, as_json: AsJson = False) -> None:
    """Declare a node dead whose process is gone. Other nodes do the same when its lease is over.

    It is watched first, and refused if it shows a sign of life. Useful where no other node is alive.
    """

    async def command(database: "Database") -> int:
        from kohort.log.postgres import operating

        await operating.forget(database, node)
        text = f"node {node} is dead; others take over what it led"
        _done({"node_id": node, "state": "dead"}, text, as_json=as_json)
        return OK

    _on_database(url, command)


@app.command()
def migrate(url: Url, as_json: AsJson = False) -> None:
    """Make the tables of a cluster, or bring them up to date, as a role that may do so."""

    async def command(database: "Database") -> int:
        from kohort.log.postgres.overview import update_schema

        done = await update_schema(database)
        text = ", ".join(f"{each.number} {each.name}" for each in done) or "the tables are up to date"
        _done([{"number": each.number, "name": each.name} for each in done], text, as_json=as_json)
        return OK

    _on_database(url, command)


def _done(document: object, text: str, *, as_json: bool) -> None:
    if as_json:
        show_json(document)
    else:
        say(text)


async def _until(
    look: Callable[[], Coroutine[None, None, _Found]], holds: Callable[[_Found], bool], timeout_s: float
) -> tuple[_Found, bool]:
    """Look until it holds or time is over: the last look, and whether it holds."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = await look()
        if holds(found):
            return found, True
        if time.monotonic() >= deadline:
            return found, False
        await asyncio.sleep(_LOOK_AGAIN_S)


def _on_database(url: str, command: "Callable[[Database], Coroutine[None, None, int]]") -> None:
    async def run() -> int:
        try:
            from kohort.log.postgres.connections import Database
        except ModuleNotFoundError as error:
            raise KohortError(
                "a cluster needs the package asyncpg, which is not installed",
                hint="pip install 'kohort[postgres]'",
            ) from error
        return await command(Database.parse(cluster_url(url)))

    raise typer.Exit(run_command(run))


def _document(found: "Overview") -> dict[str, object]:
    nodes = [each._asdict() for each in found.nodes if each.is_alive]
    return {
        **found._asdict(),
        "nodes": nodes,
        "is_led": found.is_led,
        "is_balanced": found.is_balanced,
    }


def _what_is_missing(found: "Overview", nodes: int) -> str:
    alive = sum(each.is_alive for each in found.nodes)
    wrong = [
        f"{found.orphans} partitions without a leader" if found.orphans else "",
        f"{found.loading} loading" if found.loading else "",
        f"{found.moving} moving" if found.moving else "",
        f"{alive} of {nodes} nodes alive" if alive < nodes else "",
        "" if found.is_balanced else "partitions are not shared evenly",
    ]
    return ", ".join(filter(None, wrong)) or "no node is alive"


def _show(found: "Overview") -> None:
    alive = [each for each in found.nodes if each.is_alive]
    show_facts(
        f"cluster {found.cluster_id}",
        (
            ("nodes", str(len(alive))),
            ("topics", str(found.topics)),
            ("partitions", f"{found.partitions}, {found.orphans} of them without a leader"),
            ("loading, moving", f"{found.loading}, {found.moving}"),
            ("balanced", "yes" if found.is_balanced else "no"),
            ("leaders changed", f"{found.changes_in_last_hour} in the last hour"),
            ("data lost", "no" if found.data_lost_at is None else f"noticed at {found.data_lost_at}"),
            ("tables", f"version {found.schema_version}"),
            ("PostgreSQL", f"{found.database}, answers in {found.latency_ms:g} ms"),
            ("synchronous standby", "yes" if found.has_synchronous_standby else "no"),
            ("oldest transaction", f"{found.oldest_transaction_s:.0f} s"),
        ),
    )
    show_table(_status_table(alive), empty="no node is alive")


def _status_table(nodes: "list[NodeState]") -> TextTable:
    columns = (
        Column("node", True),
        Column("address"),
        Column("state"),
        Column("lease left", True),
        Column("leads", True),
        Column("loading", True),
        Column("session", True, rank=1),
    )
    rows = [
        (
            str(each.node_id),
            each.address,
            each.state,
            f"{each.lease_left_ms} ms",
            str(each.led),
            str(each.loading),
            str(each.session),
        )
        for each in nodes
    ]
    return TextTable(columns, rows)


def _node_table(nodes: "list[NodeState]") -> TextTable:
    """A line for each node, and one more for each further listener."""
    columns = (
        Column("node", True),
        Column("address"),
        Column("state"),
        Column("lease left", True),
        Column("leads", True),
        Column("release", rank=1),
    )
    rows: list[tuple[str, ...]] = []
    for each in nodes:
        first, *more = _addresses(each)
        state = f"{each.state} ({each.ended})" if each.ended else each.state
        lease_left = f"{each.lease_left_ms} ms" if each.is_alive else "-"
        rows.append((str(each.node_id), first, state, lease_left, str(each.led), each.release))
        rows += [("", address, "", "", "", "") for address in more]
    return TextTable(columns, rows)


def _addresses(node: "NodeState") -> list[str]:
    if len(node.listeners) < 2:
        return [node.address]
    return [f"{name}://{address}" for name, address in node.listeners.items()]


def _place_table(places: "list[PartitionPlace]") -> TextTable:
    columns = (Column("topic"), Column("partition", True), Column("node", True), Column("state"))
    rows = [
        (
            each.topic,
            str(each.partition),
            "-" if each.node_id is None else str(each.node_id),
            "led" if each.is_served else "loading",
        )
        for each in places
    ]
    return TextTable(columns, rows)
