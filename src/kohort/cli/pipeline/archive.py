"""``kohort pipeline archive``: keep topics as tables, until it is stopped."""

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
from kohort.cli.pipeline.options import (
    HOW,
    UNAVAILABLE,
    WHAT,
    WHERE,
    Directory,
    EvolveOption,
    FormatOption,
    RegistryOption,
    is_delta,
)
from kohort.cli.running import OK, guarded, report
from kohort.cli.screen import (
    note,
    say,
    show_json_line,
)
from kohort.cli.session import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, refuse
from kohort.spark.pipelines.forms import Evolve, TableFormat, Values

if TYPE_CHECKING:
    from types import FrameType

    from kohort.spark.pipelines.archive import ArchiveOptions
    from kohort.spark.pipelines.progress import Event


def archive(
    topics: Annotated[
        str,
        typer.Option(
            metavar="NAMES|PATTERN",
            help="Topics with commas between, or a regular expression for whole names, such as 'shop[.].*'.",
            rich_help_panel=WHAT,
        ),
    ],
    to: Directory,
    group: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="The group to be a member of. Instances with the same group and directory share the work.",
            rich_help_panel=WHAT,
        ),
    ],
    values: Annotated[
        Values,
        typer.Option(
            help="Keep values as they are, as text, or as columns by a schema that the first of them decide: "
            "JSON, or what a schema registry has schemas of (Avro, Protobuf, JSON). "
            "What does not fit goes to the table TOPIC+bad, with the reason.",
            rich_help_panel=WHAT,
        ),
    ] = Values.BINARY,
    evolve: EvolveOption = Evolve.OFF,
    registry: RegistryOption = None,
    table_format: FormatOption = TableFormat.PARQUET,
    contract: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="With JSON: pin the columns of topics to those in this file, in the form that "
            "`kohort pipeline schema` prints.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|latest",
            help="Where partitions start that the group has not committed for.",
            rich_help_panel=WHAT,
        ),
    ] = "earliest",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    properties: Properties = None,
    trigger: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.0, help="How often a batch is landed.", rich_help_panel=HOW),
    ] = 10.0,
    once: Annotated[
        bool, typer.Option("--once", help="Land what there is now, and stop.", rich_help_panel=HOW)
    ] = False,
    max_records: Annotated[
        int | None,
        typer.Option(
            "--max-records-per-trigger",
            metavar="N",
            min=1,
            help="About this many records in a batch at most.",
            rich_help_panel=HOW,
        ),
    ] = 2_000_000,
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Be a static member of the group under this name: a restart causes no rebalance. "
            "Default: the next free number.",
            rich_help_panel=HOW,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark's master. Default: all cores of this machine.", rich_help_panel=WHERE
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Heap of Spark's driver.", rich_help_panel=WHERE)
    ] = "1g",
    as_json: AsJson = False,
) -> None:
    """Land topics in Parquet tables, each record once, as a member of a group. Ctrl-C stops it.

    Runs until it is stopped; a second one with the same group and directory takes a share of the work, and a
    next one continues where this one ended, also after a crash.
    """
    if values in (Values.BINARY, Values.UTF8) and (contract is not None or evolve is not Evolve.OFF):
        raise refuse("--schema and --evolve are for values that become columns", "add --values json")
    if (values is Values.REGISTRY) != (registry is not None):
        raise refuse("--values registry and --registry go together", "name the registry's URL or a directory")
    has_log = is_delta(table_format)
    if start not in ("earliest", "latest"):
        raise refuse(f"--from: {start!r} is neither earliest nor latest")
    try:
        re.compile(topics)  # a name is one, too
    except re.error as error:
        raise refuse(
            f"--topics: {topics!r} is not a regular expression: {error}",
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
                is_delta=has_log,
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
