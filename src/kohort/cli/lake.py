"""``kohort lake``: the history of groups as tables, in SQL and as a report."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.command_config import CommandConfig, Properties, security_properties
from kohort.cli.pipeline.options import UNAVAILABLE, FormatOption, directory, is_delta
from kohort.cli.running import OK, guarded, report
from kohort.cli.screen import (
    Column,
    TextTable,
    is_terminal,
    note,
    say,
    show_bytes,
    show_json,
    show_json_line,
    show_table,
)
from kohort.cli.session import AsJson, refuse
from kohort.model.errors import KohortError
from kohort.spark.pipelines.forms import TableFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kohort.lake.landing import Event, LakeStarted, Source
    from kohort.lake.whatif.answer import Answer

app = typer.Typer(
    no_args_is_help=True, help="Keep the history of groups: commits, lag, rebalances and why they happened."
)

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="HOST:PORT|DIR",
        help="A cluster, Kohort's or Kafka's, or a directory of segments: a data directory or a copy.",
    ),
]
To = Annotated[Path, typer.Option("--to", metavar="LAKE", parser=directory, help="Directory of the lake.")]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="How to reach the cluster: a `kafka.…` option of the Spark source; may be repeated.",
    ),
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark's master. Default: all cores of this machine.")
]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Heap of Spark's driver.")]
_MEMORY = "2g"
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@app.command()
def backfill(
    source: From,
    to: To,
    samples: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=10_000,
            help="Ask the cluster for N log ends of the past, to know the lag at those times.",
        ),
    ] = 50,
    table_format: FormatOption = TableFormat.PARQUET,
    option: Option = None,
    master: Master = None,
    memory: Memory = _MEMORY,
    command_config: CommandConfig = None,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Land all there is, make the tables, and stop. Run again, it lands what is new since then."""
    has_logs = is_delta(table_format)
    place = _source(source, option, lambda: security_properties(command_config, properties))

    def work(spark: "SparkSession") -> None:
        from kohort.lake.landing import fill
        from kohort.lake.store import Lake

        lake = Lake(to)
        with lake.writing(is_delta=has_logs):
            fill(spark, lake, place(), lambda event: _tell(event, as_json), samples=samples)

    raise typer.Exit(guarded(lambda: _on_spark(work, master, as_json, memory)))


@app.command()
def run(
    source: From,
    to: To,
    trigger: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="How often new records and log ends are landed.")
    ] = 10.0,
    refresh: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="How often the tables are made from them.")
    ] = 60.0,
    samples: Annotated[
        int, typer.Option(metavar="N", min=0, max=10_000, help="As for backfill, in a new lake.")
    ] = 50,
    table_format: FormatOption = TableFormat.PARQUET,
    option: Option = None,
    master: Master = None,
    memory: Memory = _MEMORY,
    command_config: CommandConfig = None,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Keep a lake up to date until Ctrl-C. It continues where the last one ended, also after a crash."""
    has_logs = is_delta(table_format)
    place = _source(source, option, lambda: security_properties(command_config, properties))
    stopping = threading.Event()

    def work(spark: "SparkSession") -> None:
        from kohort.lake.landing import Cadence, LakeStarted, follow
        from kohort.lake.store import Lake

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopping.set())
        lake = Lake(to)
        with lake.writing(is_delta=has_logs):
            _tell(LakeStarted(), as_json)
            cadence = Cadence(trigger, refresh, samples)
            follow(spark, lake, place(), cadence, stopping, lambda event: _tell(event, as_json))

    raise typer.Exit(guarded(lambda: _on_spark(work, master, as_json, memory)))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Spark SQL over the tables of the lake.")],
    to: To,
    limit: Annotated[int, typer.Option("--max", "-m", metavar="N", min=1, help="Show at most N rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Query a lake with SQL: kohort lake query "select * from rebalances" --to LAKE."""

    def work(spark: "SparkSession") -> None:
        from kohort.lake.queries import ask

        columns, rows = ask(spark, to, sql, limit)
        if as_json:
            show_json([dict(zip(columns, row, strict=True)) for row in rows])
            return
        shown = [["" if value is None else str(value) for value in row] for row in rows]
        show_table(TextTable([Column(name) for name in columns], shown), empty="no rows")

    raise typer.Exit(guarded(lambda: _on_spark(work, None, as_json, reads=to)))


@app.command("report")
def make_report(
    to: To,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the page is written.")] = Path(
        "report.html"
    ),
) -> None:
    """Write one HTML page with pictures: causes, lag, members, commits. The page needs no other file."""

    def work(spark: "SparkSession") -> None:
        from kohort.lake.report import report as draw

        text = draw(spark, to)
        out.write_text(text)
        say(f"written: {out} ({show_bytes(len(text.encode()))})")

    raise typer.Exit(guarded(lambda: _on_spark(work, None, as_json=False, reads=to)))


@app.command()
def whatif(
    to: To,
    group: Annotated[str, typer.Option(metavar="GROUP", help="The group whose history is replayed.")],
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE[,VALUE]",
            help="A setting to try; of several values every combination is tried. May be repeated.",
        ),
    ],
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Runs for each combination of settings.")
    ] = 20,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page with pictures.")] = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Replay the history of a group under other settings, such as --set static=true."""
    from kohort.lake.whatif.settings import WhatIfSettingError, parse_changes

    try:
        changes = parse_changes(settings)
    except WhatIfSettingError as error:
        raise refuse(f"--set: {error.args[0]}", error.hint) from error

    def work(spark: "SparkSession") -> None:
        from kohort.lake.whatif.page import page
        from kohort.lake.whatif.study import whatif as study

        answer = study(spark, to, group, changes, seeds=seeds)
        if as_json:
            show_json(answer.as_json())
        else:
            _show_answer(answer)
        if out is not None:
            text = page(answer)
            out.write_text(text)
            if not as_json:
                say(f"\nwritten: {out} ({show_bytes(len(text.encode()))})")

    raise typer.Exit(guarded(lambda: _on_spark(work, master, as_json, reads=to)))


_ANSWER = (
    Column("", is_number=True),
    Column("rebalances", is_number=True),
    Column("range", is_number=True),
    Column("unowned s", is_number=True),
    Column("less", is_number=True),
    Column("dead s", is_number=True),
    Column("longest s", is_number=True),
)


def _show_answer(answer: "Answer") -> None:
    for sentence in answer.words:
        for line in wrap(sentence, 78):
            say(line)
    say()
    rows = []
    for number, one in enumerate(answer.outcomes):
        say(f"{number:2}  {one.label}")
        rows.append(
            [
                str(number),
                f"{one.rebalances.middle:.0f}",
                f"{one.rebalances.least:.0f}-{one.rebalances.most:.0f}",
                f"{one.unowned_ms.middle / 1_000:,.0f}",
                f"{one.saved.middle:.0%}" if number else "",
                f"{one.dead_ms.middle / 1_000:,.0f}",
                f"{one.longest_ms.middle / 1_000:,.0f}",
            ]
        )
    say()
    show_table(TextTable(_ANSWER, rows), empty="")
    say("\nThis takes for granted:")
    for each in answer.assumptions:
        for line in wrap(each, 78, initial_indent="- ", subsequent_indent="  "):
            say(line)


def _source(
    text: str, options: list[str] | None, security: "Callable[[], dict[str, str]]"
) -> "Callable[[], Source]":
    """What is read; a path is one that exists or has a slash. Checked before Spark starts.

    The security settings are read when a cluster is read: a file that the environment names is no reason to
    refuse a directory.
    """
    named: dict[str, str] = {}
    for each in options or ():
        name, equals, value = each.partition("=")
        if not equals or not name.startswith("kafka."):
            raise refuse(f"--option: cannot understand {name!r}", "write it as kafka.NAME=VALUE")
        named[name] = value
    path = directory(text) if text.startswith("file:") else Path(text)
    is_path = path.exists() or "/" in text
    if is_path and not path.is_dir():
        raise refuse(
            f"--from: there is no directory {text}", "give a data directory, or HOST:PORT of a cluster"
        )
    if is_path and named:
        raise refuse("--option needs a cluster", "files are read without a broker")

    def make() -> "Source":
        from kohort.lake.landing import Files, SourceCluster

        if is_path:
            return Files(path.absolute())
        secured = {f"kafka.{name}": value for name, value in security().items()}
        return SourceCluster(bootstrap=text, options=named | secured)

    return make


def _on_spark(
    work: "Callable[[SparkSession], None]",
    master: str | None,
    as_json: bool,
    memory: str = _MEMORY,
    reads: Path | None = None,
) -> int:
    """Run ``work`` with a Spark session; ``reads`` is a lake that must exist, checked before Spark starts."""
    from kohort.lake.store import Lake
    from kohort.spark.environment import MissingSparkError
    from kohort.spark.java import JavaError

    if reads is not None:
        Lake.existing(reads)
    if not as_json and is_terminal():
        note("Spark is starting …")
    try:
        with _session(master, memory) as spark:
            work(spark)
    except (MissingSparkError, JavaError) as error:
        return report(error, UNAVAILABLE)
    return OK


@contextmanager
def _session(master: str | None, memory: str) -> "Iterator[SparkSession]":
    from kohort.spark.sessions import is_running, session

    was_running = is_running()  # then it is the caller's, who goes on with it
    spark = session("kohort lake", master=master, conf=_QUIET | {"spark.driver.memory": memory})
    spark.sparkContext.setLogLevel("OFF")  # what goes wrong is raised
    try:
        yield spark
    except Exception as error:
        raise _plainly(error) from error
    finally:
        if not was_running:
            spark.stop()


def _plainly(error: Exception) -> Exception:
    """What a Python worker raised, without the stack traces that Spark wraps it in."""
    from pyspark.errors import PySparkException

    if isinstance(error, KohortError) or not isinstance(error, PySparkException):
        return error
    lines = [line.strip() for line in str(error).splitlines() if "Error:" in line or "Exception:" in line]
    return KohortError(lines[-1] if lines else str(error).partition("\n")[0])


def _tell(event: "LakeStarted | Event", as_json: bool) -> None:
    from kohort.lake.landing import event_json, event_text

    if as_json:
        show_json_line({"time": round(time.time(), 3), **event_json(event)})
    else:
        say(f"{time.strftime('%H:%M:%S')}  {event_text(event)}")
    sys.stdout.flush()
