"""``kohort up``: everything there is, on defaults that need nothing, in the foreground."""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.logs import log_to_stderr
from kohort.cli.running import OK, guarded, on_loop, stop_on_signals, stop_within
from kohort.cli.screen import is_terminal, note, say
from kohort.cli.serve.options import DEFAULT_DATA
from kohort.cli.up.services import BrokerService, Row, UpService, first_free_port
from kohort.client.addresses import DEFAULT_PORT

if TYPE_CHECKING:
    import asyncio

    from kohort.cli.up.archive import ArchiveService
    from kohort.cli.up.child import ChildView
    from kohort.cli.up.lake import LakeService

    Watch = Callable[[asyncio.Event, list[Row]], Awaitable[None]]

HOST = "127.0.0.1"

_STOP_SECONDS = 25.0  # each service has less patience than this with what it runs


def up(
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port of the broker. Default: 9092, or the next free one."
        ),
    ] = None,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Directory of the data.")] = DEFAULT_DATA,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep everything in memory, and nothing when it stops.")
    ] = False,
    archive: Annotated[
        bool,
        typer.Option(
            "--archive/--no-archive",
            help="Keep all topics as Parquet tables in DIR-archive, by a Spark job beside the broker.",
        ),
    ] = True,
    lake: Annotated[
        bool,
        typer.Option(
            "--lake/--no-lake",
            help="Keep the history of groups as Parquet tables in DIR-lake, by a second Spark job. "
            "It starts with the first group.",
        ),
    ] = True,
) -> None:
    """Start everything on defaults, and show what it does and what to try. Ctrl-C stops it."""
    log_to_stderr("human", "warning")
    chosen = first_free_port(HOST, DEFAULT_PORT) if port is None else port
    broker = BrokerService(HOST, chosen, None if memory else data)
    archived = _archive(broker, Path(data)) if archive and not memory else None
    history = _lake(broker, Path(data)) if lake and not memory else None
    moved = port is None and chosen != DEFAULT_PORT
    services: list[UpService] = [broker, *(one for one in (archived, history) if one is not None)]
    watch = _watch(broker, archived, history)
    raise typer.Exit(guarded(lambda: on_loop(run_services(services, moved=moved, watch=watch))))


def _archive(broker: BrokerService, data: Path) -> "ArchiveService":
    from kohort.cli.up.archive import ArchiveService

    return ArchiveService(data, lambda: str(broker.address), _tell_changes("archive"))


def _lake(broker: BrokerService, data: Path) -> "LakeService":
    from kohort.cli.up.lake import LakeService

    return LakeService(data, lambda: str(broker.address), _tell_changes("lake"))


def _tell_changes(name: str) -> "Callable[[ChildView], None]":
    """Say in lines what a child does, unless there is a screen that shows it."""
    from kohort.cli.up.screen import changes

    return (lambda _: None) if is_terminal() else changes(name, _say_now)


def _say_now(line: str) -> None:
    print(line, flush=True)


async def run_services(services: Sequence[UpService], *, moved: bool, watch: "Watch | None" = None) -> int:
    """Start the services one after another, show them, and stop them in reverse on a signal.

    ``watch`` keeps a picture of them on a terminal until it is asked to stop.
    """
    stopping = stop_on_signals()
    rows: list[Row] = []
    async with AsyncExitStack() as started:
        for service in services:
            rows += await service.start()
            started.push_async_callback(stop_within, _STOP_SECONDS, service.stop)
        if moved:
            note(f"port {DEFAULT_PORT} is taken: using the next free one")
        suggestions = [line for service in services for line in service.suggestions()]
        if watch is not None and is_terminal():
            show_suggestions(suggestions)
            await watch(stopping, rows)
        else:
            show_plainly(rows, suggestions)
            await stopping.wait()
        note("stopping …")
    show_kept(rows)
    return OK


def show_kept(rows: list[Row]) -> None:
    """Where everything is after the end, and how to read it; a lake that has not begun is not there."""
    kept = [row for row in rows if row.kept and os.path.exists(row.kept)]
    for row in kept:
        note(f"{row.what} kept in {row.kept}")
        if row.query:
            note(f"  {row.query}")
    if kept:
        note("the same command goes on from there")


def _watch(broker: BrokerService, archive: "ArchiveService | None", lake: "LakeService | None") -> "Watch":
    """The picture of a broker, its archive and its lake."""
    from kohort.cli.up.screen import Picture, ScreenSource, show_until

    began = time.monotonic()

    async def watch(stopping: "asyncio.Event", rows: list[Row]) -> None:
        sight = ScreenSource(str(broker.address), None if archive is None else archive.directory)
        picture = Picture(rows, began)
        picture.archive = None if archive is None else archive.view
        picture.lake = None if lake is None else lake.view
        await show_until(stopping, picture, sight)

    return watch


def show_plainly(rows: list[Row], suggestions: list[str]) -> None:
    """What runs where, and what to try next, in lines."""
    width = max(len(row.what) for row in rows)
    say("kohort is up")
    for row in rows:
        say(f"  {row.what:{width}}  {row.where}")
    say()
    for line in suggestions:
        say(line)
    print(end="", flush=True)


def show_suggestions(suggestions: list[str]) -> None:
    """What to try next, above the picture and without edges, so that lines can be copied."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in suggestions:
        console.print(Text(line, style="" if line.startswith(" ") else "bold"), soft_wrap=True)
