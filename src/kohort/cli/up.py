"""``kohort up``: everything there is, on defaults that need nothing, in the foreground."""

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from kohort.cli.logs import log_to_stderr
from kohort.cli.parts import BrokerPart, Part, Row, first_free_port
from kohort.cli.screen import is_terminal, note, say
from kohort.cli.serve import OK, STOP_SECONDS, guarded, on_loop, stop_on_signals, stop_within
from kohort.cli.serve_options import DEFAULT_DATA
from kohort.client.addresses import DEFAULT_PORT

HOST = "127.0.0.1"


def up(
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port of the broker. [default: 9092, or the next free one]"
        ),
    ] = None,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Directory of the data.")] = DEFAULT_DATA,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep everything in memory, and nothing when it stops.")
    ] = False,
) -> None:
    """Start everything on defaults, and say what listens where and what to try. Ctrl-C stops it."""
    log_to_stderr("human", "warning")
    chosen = first_free_port(HOST, DEFAULT_PORT) if port is None else port
    parts: list[Part] = [BrokerPart(HOST, chosen, None if memory else data)]
    moved = port is None and chosen != DEFAULT_PORT
    raise typer.Exit(guarded(lambda: on_loop(run_parts(parts, moved=moved))))


async def run_parts(parts: list[Part], *, moved: bool) -> int:
    """Start the parts one after another, show them, and stop them in reverse when told to."""
    stopping = stop_on_signals()
    async with AsyncExitStack() as started:
        rows: list[Row] = []
        for part in parts:
            rows += await part.start()
            started.push_async_callback(_stop, part)
        if moved:
            note(f"port {DEFAULT_PORT} is taken: using the next free one")
        show_screen(rows, [line for part in parts for line in part.suggestions()])
        await stopping.wait()
        note("stopping …")
    return OK


async def _stop(part: Part) -> None:
    await stop_within(STOP_SECONDS, part.stop)


def show_screen(rows: list[Row], suggestions: list[str]) -> None:
    """What runs where, and what to try next."""
    width = max(len(row.what) for row in rows)
    if not is_terminal():
        say("kohort is up")
        for row in rows:
            say(f"  {row.what:{width}}  {row.where}")
        say()
        for line in suggestions:
            say(line)
        return
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    body = Text("\n").join(
        Text.assemble((f"{row.what:{width}}  ", "bold"), (row.where, "cyan")) for row in rows
    )
    console = Console(highlight=False)
    console.print(Panel(body, title="kohort is up", subtitle="Ctrl-C stops it", expand=False, padding=(0, 2)))
    # Below the frame, so that lines can be copied without its edges.
    for line in suggestions:
        console.print(Text(line, style="" if line.startswith(" ") else "bold"), soft_wrap=True)
