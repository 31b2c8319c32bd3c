"""``--watch [SECONDS]``: the same answer again and again, until Ctrl-C."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer

from kohort.cli.plain_help import PlainCommand
from kohort.cli.screen import is_terminal, note, say
from kohort.model.errors import KohortError

DEFAULT_SECONDS = 2.0
_NAME = "--watch"
_CLEAR = "\x1b[H\x1b[2J"

Watch = Annotated[
    float | None,
    typer.Option(
        _NAME,
        metavar="[SECONDS]",
        min=0.1,
        help=f"Repeat every SECONDS ({DEFAULT_SECONDS:g} if not given) until Ctrl-C.",
    ),
]


class WatchCommand(PlainCommand):
    """A command whose ``--watch`` needs no number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's class has moved before
        return super().parse_args(ctx, with_seconds(args))


def with_seconds(arguments: Sequence[str]) -> list[str]:
    """The arguments with a number after every ``--watch`` that has none."""
    filled: list[str] = []
    for number, argument in enumerate(arguments):
        filled.append(argument)
        if argument == _NAME and not _is_number(arguments[number + 1 : number + 2]):
            filled.append(str(DEFAULT_SECONDS))
    return filled


def _is_number(argument: Sequence[str]) -> bool:
    try:
        return bool(argument) and float(argument[0]) >= 0
    except ValueError:
        return False


async def repeat(
    show: Callable[[], Awaitable[int]],
    seconds: float | None,
    as_json: bool,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Show once, or every ``seconds`` for good. A first failure is the user's; later ones may pass."""
    if seconds is None:
        return await show()
    _begin(as_json)
    await show()
    while True:
        sys.stdout.flush()
        await pause(seconds)
        _begin(as_json, again=True)
        try:
            await show()
        except KohortError as error:
            note(f"kohort: error: {error}")


def _begin(as_json: bool, *, again: bool = False) -> None:
    """On a terminal what was there is replaced; elsewhere tables follow each other, JSON line by line."""
    if as_json:
        return
    if is_terminal():
        sys.stdout.write(_CLEAR)
    elif again:
        say()
