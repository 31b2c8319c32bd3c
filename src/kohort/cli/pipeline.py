"""``kohort pipeline``: standing jobs on Spark, and what they have made."""

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.command_config import CommandConfig, Properties, security_properties
from kohort.cli.screen import (
    Column,
    Table,
    counted,
    is_terminal,
    note,
    say,
    show_bytes,
    show_json,
    show_json_line,
    show_table,
)
from kohort.cli.serve import OK, guarded, report
from kohort.cli.session import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, refuse
from kohort.model.errors import KohortError
from kohort.spark.pipelines.forms import Evolve, Values

if TYPE_CHECKING:
    from types import FrameType

    from kohort.spark.pipelines.archive import ArchiveOptions
    from kohort.spark.pipelines.progress import Event
    from kohort.spark.pipelines.status import TableStatus

UNAVAILABLE = 3  # Spark or Java is missing: trying again would not help

app = typer.Typer(
    no_args_is_help=True, help="Keep topics as tables: a standing job on Spark, and its tables."
)

_WHAT, _HOW, _WHERE = "What is archived", "How", "Where it runs"

EvolveOption = Annotated[
    Evolve,
    typer.Option(
        help="With JSON: when members are new or of another type, keep the columns as they are (off), or add "
        "columns: of the new type, such as amount__2 (version), or of text where types conflict (string).",
        rich_help_panel=_WHAT,
    ),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL|DIR",
        help="Where schemas are: a schema registry (http://user:password@host:8081), or a directory with "
        "7.avsc, 7.json or 7.desc for schema 7.",
        rich_help_panel=_WHAT,
    ),
]
Directory = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="Directory of the archive, one table for each topic.")
]


@app.command()
def archive(
    topics: Annotated[
        str,
        typer.Option(
            metavar="NAMES|PATTERN",
            help="Topics with commas between, or a regular expression for whole names, such as 'shop[.].*'.",
            rich_help_panel=_WHAT,
        ),
    ],
    to: Directory,
    group: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="The group to be a member of. Instances with the same group and directory share the work.",
            rich_help_panel=_WHAT,
        ),
    ],
    values: Annotated[
        Values,
        typer.Option(
            help="Keep values as they are, as text, or as columns by a schema that the first of them decide: "
            "JSON, or what a schema registry has schemas of (Avro, Protobuf, JSON). "
            "What does not fit goes to the table TOPIC+bad, with the reason.",
            rich_help_panel=_WHAT,
        ),
    ] = Values.BINARY,
    evolve: EvolveOption = Evolve.OFF,
    registry: RegistryOption = None,
    contract: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="With JSON: pin the columns of topics to those in this file, in the form that "
            "`kohort pipeline schema` prints.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|latest",
            help="Where partitions start that the group has not committed for.",
            rich_help_panel=_WHAT,
        ),
    ] = "earliest",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    properties: Properties = None,
    trigger: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.0, help="How often a batch is landed.", rich_help_panel=_HOW),
    ] = 10.0,
    once: Annotated[
        bool, typer.Option("--once", help="Land what there is now, and stop.", rich_help_panel=_HOW)
    ] = False,
    max_records: Annotated[
        int | None,
        typer.Option(
            "--max-records-per-trigger",
            metavar="N",
            min=1,
            help="At most about so many records a batch.",
            rich_help_panel=_HOW,
        ),
    ] = 2_000_000,
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Be a static member of the group under this name: a restart causes no rebalance. "
            "[default: the next free number]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark's master. [default: all cores of this machine]", rich_help_panel=_WHERE
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Heap of Spark's driver.", rich_help_panel=_WHERE)
    ] = "1g",
    as_json: AsJson = False,
) -> None:
    """Land topics in Parquet tables, each record once, as a member of a group. Ctrl-C stops it.

    Runs until it is stopped; a second one with the same group and directory takes a share of the work, and a
    next one goes on where this one ended, however that was.
    """
    if values in (Values.BINARY, Values.UTF8) and (contract is not None or evolve is not Evolve.OFF):
        raise refuse("--schema and --evolve are for values that become columns", "add --values json")
    if (values is Values.REGISTRY) != (registry is not None):
        raise refuse("--values registry and --registry go together", "name the registry's URL or a directory")
    if start not in ("earliest", "latest"):
        raise refuse(f"--from: {start!r} is neither earliest nor latest")
    try:
        re.compile(topics)  # a name is one, too
    except re.error as error:
        raise refuse(
            f"--topics: {topics!r} is no regular expression: {error}",
            "name topics with commas between, or give a pattern such as 'shop[.].*'",
        ) from None

    def run() -> int:
        from kohort.spark.pipelines.archive import ArchiveOptions
        from kohort.spark.pipelines.table_schema import read_contract

        return _archive(
            ArchiveOptions(
                bootstrap=bootstrap,
                topics=topics,
                to=to,
                group=group,
                values=values,
                evolve=evolve,
                registry=registry,
                contract=read_contract(contract.read_bytes()) if contract is not None else {},
                trigger_seconds=trigger,
                once=once,
                start=start,
                max_records=max_records,
                instance=instance,
                master=master,
                memory=memory,
                security=security_properties(command_config, properties),
            ),
            as_json=as_json,
        )

    raise typer.Exit(guarded(run))


def _archive(options: "ArchiveOptions", *, as_json: bool) -> int:
    from kohort.spark.environment import MissingSparkError
    from kohort.spark.java import JavaError
    from kohort.spark.pipelines import archive as pipeline

    ending = _Ending()
    if not as_json:
        say(f"archiving {options.topics} to {options.to}; Spark is starting …")
        sys.stdout.flush()
    try:
        pipeline.archive(options, lambda event: ending.heard(event, as_json), ending.stopping)
    except (MissingSparkError, JavaError) as error:
        return report(error, UNAVAILABLE)
    return OK


class _Ending:
    """Signals. Before the query runs there is nothing to bring to rest; afterwards the second is at once."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._is_running = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    def _asked(self, number: int, frame: "FrameType | None") -> None:
        if self.stopping.is_set() or not self._is_running:
            os._exit(128 + number)
        self.stopping.set()
        note("stopping after this batch …")

    def heard(self, event: "Event", as_json: bool) -> None:
        """Print an event; batches come from another thread."""
        from kohort.spark.pipelines.progress import Started, event_json, event_text

        self._is_running = self._is_running or isinstance(event, Started)
        if as_json:
            show_json_line({"time": round(time.time(), 3), **event_json(event)})
        else:
            say(f"{time.strftime('%H:%M:%S')}  {event_text(event)}")
        sys.stdout.flush()


@app.command()
def status(
    to: Directory,
    partitions: Annotated[
        bool, typer.Option("--partitions", "-p", help="Show every partition with its offsets and gaps.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what has landed: rows, offsets, gaps, files, sizes. Needs no Spark."""
    raise typer.Exit(guarded(lambda: _status(to, by_partition=partitions, as_json=as_json)))


def _status(to: Path, *, by_partition: bool, as_json: bool) -> int:
    from kohort.spark.pipelines.status import status as look
    from kohort.spark.pipelines.status import status_json

    found = look(_existing(to))
    if as_json:
        show_json([status_json(one) for one in found])
    elif by_partition:
        show_table(_partition_table(found), empty=f"nothing has landed in {to} yet")
    else:
        show_table(_topic_table(found), empty=f"nothing has landed in {to} yet")
    return OK


def _existing(to: Path) -> Path:
    if not to.is_dir():
        raise KohortError(f"there is no directory {to}", hint="give the directory the archive was written to")
    return to.resolve()


def _topic_table(found: "list[TableStatus]") -> Table:
    numbers = ("partitions", "rows", "bad", "missing", "files")
    columns = [
        Column("topic"),
        *(Column(name, True) for name in numbers),
        Column("size", True),
        Column("days", rank=1),
    ]
    rows = [
        (
            one.topic,
            str(len(one.partitions)),
            f"{one.rows:,}",
            f"{one.bad:,}",
            f"{one.missing:,}",
            str(one.files),
            show_bytes(one.bytes),
            _days(one.dates),
        )
        for one in found
    ]
    return Table(columns, rows)


def _days(dates: tuple[str, ...]) -> str:
    return "-" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _partition_table(found: "list[TableStatus]") -> Table:
    columns = (
        Column("topic"),
        Column("partition", True),
        Column("offsets"),
        Column("rows", True),
        Column("bad", True),
        Column("gaps"),
        Column("topic id", rank=1),
    )
    rows = [
        (
            table.topic,
            str(one.partition),
            ", ".join(f"{span.first}-{span.end - 1}" for span in one.spans),
            f"{one.rows:,}",
            f"{one.bad:,}",
            ", ".join(f"{span.first}-{span.end - 1}" for span in one.gaps) or "-",
            one.topic_id or "-",
        )
        for table in found
        for one in table.partitions
    ]
    return Table(columns, rows)


@app.command("compact")
def compact_files(
    to: Directory,
    target: Annotated[
        int, typer.Option("--target", metavar="MIB", min=1, help="How large files should become.")
    ] = 128,
    as_json: AsJson = False,
) -> None:
    """Merge small files. Readers see the old files or the new ones; the pipeline may go on meanwhile."""

    def run() -> int:
        from kohort.spark.pipelines.compaction import MIB, Sizes, compact
        from kohort.spark.pipelines.table import recover_all, tables

        root = _existing(to)
        found = tables(root)
        recover_all(found)
        merged = compact(found, root, Sizes(target=target * MIB, least=2), lambda: True)
        if as_json:
            show_json([one._asdict() for one in merged])
            return OK
        for one in merged:
            say(f"{one.date}: {counted(one.before, 'file')} → {one.after}")
        if not merged:
            say("nothing to merge")
        return OK

    raise typer.Exit(guarded(run))


@app.command()
def schema(
    to: Directory,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Show this topic only.")] = None,
) -> None:
    """Print the columns of JSON values, for `archive --schema`: {"orders": {"id": "bigint", ...}}."""

    def run() -> int:
        from kohort.spark.pipelines.table import tables
        from kohort.spark.pipelines.table_schema import kept_schema

        found = {
            table.topic: kept.fields
            for table in tables(_existing(to))
            if topic in (None, table.topic) and (kept := kept_schema(table)) is not None
        }
        if topic is not None and not found:
            raise KohortError(f"there is no schema for {topic!r} in {to}", hint="only JSON values have one")
        show_json(found)
        return OK

    raise typer.Exit(guarded(run))


@app.command("replay-bad")
def replay_bad(
    to: Directory,
    evolve: EvolveOption = Evolve.OFF,
    registry: RegistryOption = None,
    as_json: AsJson = False,
) -> None:
    """Land the bad JSON records that fit by now: after a new `archive --schema`, or with --evolve.

    Each record is in the table or in TOPIC+bad, once. The pipeline may go on meanwhile. Needs no Spark.
    """

    def run() -> int:
        from kohort.spark.pipelines import replay

        done = replay.replay_bad(_existing(to), evolve, registry)
        if as_json:
            show_json([one._asdict() for one in done])
            return OK
        columns = (Column("topic"), Column("landed", True), Column("still bad", True))
        rows = [(one.topic, f"{one.landed:,}", f"{one.still_bad:,}") for one in done]
        show_table(Table(columns, rows), empty=f"there is no table with JSON values in {to}")
        return OK

    raise typer.Exit(guarded(run))


@app.command()
def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Spark SQL; each table is named as its topic.")
    ],
    to: Directory,
    limit: Annotated[int, typer.Option("--max", "-m", metavar="N", min=1, help="Show so many rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Ask the archive in SQL: kohort pipeline sql "select count(*) from orders" --to DIR."""

    def run() -> int:
        from kohort.spark.pipelines.queries import ask

        root = _existing(to)
        if is_terminal():
            note("Spark is starting …")
        columns, rows = ask(root, query, limit)
        if as_json:
            show_json([dict(zip(columns, row, strict=True)) for row in rows])
        else:
            show_table(Table([Column(name) for name in columns], rows), empty="no rows")
        return OK

    raise typer.Exit(guarded(run))
