"""``kohort cluster``: the brokers of any cluster; nodes that share a PostgreSQL, looked at and drained."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.brokers import cluster as show_brokers
from kohort.cli.command_config import CommandConfig, Properties
from kohort.cli.screen import Column, TextTable, say, show_facts, show_json, show_table
from kohort.cli.serve import OK
from kohort.cli.session import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, run_command
from kohort.model.errors import KohortError

if TYPE_CHECKING:
    from kohort.log.postgres.connections import Database
    from kohort.log.postgres.overview import Overview

app = typer.Typer(invoke_without_command=True, help=show_brokers.__doc__)

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="postgresql://USER@HOST/DATABASE?schema=NAME of the nodes.", show_default=False
    ),
]


@app.callback()
def cluster(
    context: typer.Context,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is None:
        show_brokers(bootstrap, command_config, properties, as_json)


@app.command()
def status(url: Url, as_json: AsJson = False) -> None:
    """Show the nodes that share a PostgreSQL, what each leads, and what none leads."""

    async def command(database: "Database") -> None:
        from kohort.log.postgres.overview import look

        found = await look(database)
        if as_json:
            show_json({**found._asdict(), "nodes": [each._asdict() for each in found.nodes]})
        else:
            _show(found)

    _on_database(url, command)


@app.command()
def drain(
    node: Annotated[int, typer.Argument(metavar="NODE", help="The number of the node.", show_default=False)],
    url: Url,
) -> None:
    """Have a node hand over everything that it leads. It leads nothing until it is started again."""

    async def command(database: "Database") -> None:
        from kohort.log.postgres.overview import drain as drain_node

        await drain_node(database, node)
        say(f"node {node} hands over what it leads; `kohort cluster status` shows how far it is")

    _on_database(url, command)


@app.command()
def migrate(url: Url) -> None:
    """Make the tables of a cluster, or bring them up to date, as a role that may do so."""

    async def command(database: "Database") -> None:
        from kohort.log.postgres.overview import update_schema

        done = await update_schema(database)
        say(", ".join(f"{each.number} {each.name}" for each in done) or "the tables are up to date")

    _on_database(url, command)


def _on_database(url: str, command: "Callable[[Database], Coroutine[None, None, None]]") -> None:
    async def run() -> int:
        try:
            from kohort.log.postgres.connections import Database
        except ModuleNotFoundError as error:
            raise KohortError(
                "a cluster needs the package asyncpg, which is not installed",
                hint="pip install 'kohort[postgres]'",
            ) from error
        await command(Database.parse(url))
        return OK

    raise typer.Exit(run_command(run))


def _show(found: "Overview") -> None:
    show_facts(
        f"cluster {found.cluster_id}",
        (
            ("nodes", str(len(found.nodes))),
            ("topics", str(found.topics)),
            ("partitions", f"{found.partitions}, {found.orphans} of them without a leader"),
            ("tables", f"version {found.schema_version}"),
            ("PostgreSQL", found.database),
            ("synchronous standby", "yes" if found.has_synchronous_standby else "no"),
        ),
    )
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
        for each in found.nodes
    ]
    show_table(TextTable(columns, rows), empty="no node is alive")
