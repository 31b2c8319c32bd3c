"""``kohort pipeline status``, ``compact``, ``schema``, ``replay-bad``, ``sql``: what an archive has made."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.pipeline.options import Directory, EvolveOption, RegistryOption
from kohort.cli.running import OK, guarded
from kohort.cli.screen import (
    Column,
    TextTable,
    is_terminal,
    note,
    say,
    show_bytes,
    show_json,
    show_table,
)
from kohort.cli.session import AsJson
from kohort.model.errors import KohortError
from kohort.spark.pipelines.forms import Evolve
from kohort.story.names import counted

if TYPE_CHECKING:
    from kohort.spark.pipelines.status import TableStatus


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


def _topic_table(found: "list[TableStatus]") -> TextTable:
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
    return TextTable(columns, rows)


def _days(dates: tuple[str, ...]) -> str:
    return "-" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _partition_table(found: "list[TableStatus]") -> TextTable:
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
    return TextTable(columns, rows)


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
        show_table(TextTable(columns, rows), empty=f"there is no table with JSON values in {to}")
        return OK

    raise typer.Exit(guarded(run))


def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Spark SQL; each table is named as its topic.")
    ],
    to: Directory,
    limit: Annotated[int, typer.Option("--max", "-m", metavar="N", min=1, help="Show at most N rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Query the archive with SQL: kohort pipeline sql "select count(*) from orders" --to DIR."""

    def run() -> int:
        from kohort.spark.pipelines.queries import ask

        root = _existing(to)
        if is_terminal():
            note("Spark is starting …")
        columns, rows = ask(root, query, limit)
        if as_json:
            show_json([dict(zip(columns, row, strict=True)) for row in rows])
        else:
            show_table(TextTable([Column(name) for name in columns], rows), empty="no rows")
        return OK

    raise typer.Exit(guarded(run))
