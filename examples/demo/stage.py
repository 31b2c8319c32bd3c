"""Where the tour is shown: words, commands with what they print, and the group, watched until something has
happened.
"""

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from examples.demo.company import Company
from examples.demo.orders import Shop
from examples.demo.view import GroupView, draw, line, look
from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

import kohort
from kohort.model.errors import KohortError

_PLAIN_WIDTH = 110
_LOOK_SECONDS = 0.25
_SAY_SECONDS = 5.0  # between two lines that tell only of lag, where nothing can be drawn

T = TypeVar("T")
Holds = Callable[[GroupView], bool]


class TooSlowError(KohortError):
    """What the tour waits for has not happened."""


@dataclass(frozen=True, slots=True)
class TourPace:
    """How fast the tour goes. ``reading`` stretches the time to read; 0 leaves none."""

    reading: float
    per_second: int
    session_ms: int
    patience_seconds: float = 180.0


class Stage:
    """What a person sees. On a terminal, any key ends the time to read."""

    def __init__(self, console: Console, pace: TourPace) -> None:
        self.console = console
        self.pace = pace
        self._chapters = 0
        self._entered = asyncio.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read keys where there is a keyboard and time to read; they are not echoed into the picture."""
        if not (self.pace.reading and sys.stdin.isatty()):
            yield
            return
        import termios

        before = termios.tcgetattr(sys.stdin)
        quiet = termios.tcgetattr(sys.stdin)
        quiet[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
        asyncio.get_running_loop().add_reader(sys.stdin, self._heard)
        try:
            yield
        finally:
            asyncio.get_running_loop().remove_reader(sys.stdin)
            termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)

    def _heard(self) -> None:
        if not os.read(sys.stdin.fileno(), 1_024):
            asyncio.get_running_loop().remove_reader(sys.stdin)
        self._entered.set()

    def chapter(self, title: str, *paragraphs: str) -> None:
        self._chapters += 1
        self.console.print()
        if self.console.is_terminal:
            self.console.print(
                Rule(Text(f"{self._chapters}  {title}", "bold cyan"), align="left", style="cyan")
            )
        else:
            self.console.print(f"{self._chapters}. {title}")
        for paragraph in paragraphs:
            self.say(paragraph)

    def say(self, paragraph: str) -> None:
        """Words, however they are broken into lines; `code` between backticks."""
        text = Text()
        for number, part in enumerate(" ".join(paragraph.split()).split("`")):
            text.append(part, "bold" if number % 2 else "")
        self.console.print(text)

    async def read(self, seconds: float) -> None:
        """Time to read, until a key is pressed."""
        self._entered.clear()
        try:
            async with asyncio.timeout(seconds * self.pace.reading):
                await self._entered.wait()
        except TimeoutError:
            return

    def show_command(self, *arguments: str) -> None:
        self.console.print()
        self.console.print(Text(f"$ kohort {shlex.join(arguments)}", "bold green"), soft_wrap=True)

    def show_output(self, printed: str) -> None:
        for text in printed.rstrip().splitlines():
            self.console.print(Text(text), soft_wrap=True)

    async def run(self, bootstrap: str, *arguments: str) -> None:
        """A command, as it would be typed, and what it prints."""
        self.show_command(*arguments)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kohort.cli.main", *arguments, "--bootstrap", bootstrap),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        self.show_output(printed.decode())
        if process.returncode:
            raise KohortError(f"`kohort {shlex.join(arguments)}` ended with {process.returncode}")

    async def wait_for(self, what: str, awaited: Awaitable[T]) -> T:
        """Wait with a sign of life."""
        if not self.console.is_terminal:
            return await awaited
        with self.console.status(what):
            return await awaited


class Watcher:
    """Looks at the group and shows it until something holds."""

    def __init__(
        self, stage: Stage, admin: kohort.AsyncAdmin, company: Company, shop: Shop, partitions: int
    ) -> None:
        self._stage = stage
        self._admin = admin
        self._company = company
        self._shop = shop
        self._partitions = partitions
        self._said = ""
        self._said_at = 0.0

    async def settle(self, wanted: str, holds: Holds) -> None:
        """Wait until it is as wanted, and show nothing; raises TooSlowError."""
        deadline = time.monotonic() + self._stage.pace.patience_seconds
        while not holds(view := await self._look()):
            await self._next(wanted, deadline, view)

    async def until(self, wanted: str, holds: Holds, *, reading: float = 0.0) -> None:
        """Show the group at least for a time to read, and until it is as wanted; raises TooSlowError.

        The last picture stays, unless there was nothing to read about it.
        """
        deadline = time.monotonic() + self._stage.pace.patience_seconds
        reading_ends = asyncio.ensure_future(self._stage.read(reading))
        try:
            if self._stage.console.is_terminal:
                await self._draw(wanted, holds, deadline, reading_ends if reading else None)
            else:
                await self._tell(wanted, holds, deadline, reading_ends)
        finally:
            reading_ends.cancel()

    async def _draw(
        self, wanted: str, holds: Holds, deadline: float, reading_ends: "asyncio.Future[None] | None"
    ) -> None:
        is_passing = reading_ends is None
        with Live(console=self._stage.console, auto_refresh=False, transient=is_passing) as live:
            while True:
                view = await self._look()
                picture = draw(view, self._company, self._shop.written)
                is_so = holds(view)
                is_over = is_so and (reading_ends is None or reading_ends.done())
                hint = "" if is_over else f"\n  {'Enter goes on' if is_so else f'waiting for {wanted}'}"
                live.update(Group(picture, Text(hint, "dim")), refresh=True)
                if is_over:
                    return
                await self._next(wanted, deadline, view)

    async def _tell(
        self, wanted: str, holds: Holds, deadline: float, reading_ends: "asyncio.Future[None]"
    ) -> None:
        while True:
            view = await self._look()
            is_over = holds(view) and reading_ends.done()
            self._say_changes(view, always=is_over)
            if is_over:
                return
            await self._next(wanted, deadline, view)

    def _say_changes(self, view: GroupView, *, always: bool) -> None:
        text, now = line(view), time.monotonic()
        shares = text.partition(";")[0]
        if always or shares != self._said or now - self._said_at > _SAY_SECONDS:
            self._stage.console.print(f"  {text}", soft_wrap=True)
            self._said, self._said_at = shares, now

    async def _look(self) -> GroupView:
        self._company.check()
        place = self._company.place
        return await look(self._admin, place.group, place.topic, self._partitions)

    async def _next(self, wanted: str, deadline: float, view: GroupView) -> None:
        if time.monotonic() > deadline:
            raise TooSlowError(f"waited {self._stage.pace.patience_seconds:g} s for {wanted}: {line(view)}")
        await asyncio.sleep(_LOOK_SECONDS)


def new_console() -> Console:
    """The terminal, or plain lines of a fixed width."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)
