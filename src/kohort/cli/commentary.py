"""What a long command says beside its result, on standard error: notes, and progress on a terminal."""

import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kohort.cli.screen import show_bytes
from kohort.model.topics import TopicPartition
from kohort.story.names import counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_MANY = 100  # records, for a rate to mean something


class Commentary:
    """Counts what is done and talks about it; says nothing at all when it is to be quiet.

    Progress is drawn while the block lasts, only if standard error is a terminal, and vanishes after it.
    """

    def __init__(
        self, doing: str, *, quiet: bool, draws: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.records = 0
        self.size = 0
        self._doing = doing
        self._quiet = quiet
        self._draws = draws and not quiet and sys.stderr.isatty()
        self._clock = clock
        self._began = clock()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._expected: int | None = None

    def __enter__(self) -> Self:
        if self._draws:
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def note(self, text: str) -> None:
        """One line, above the progress."""
        if self._quiet:
            return
        if self._progress is not None:
            self._progress.console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)
        elif sys.stderr.isatty():
            print(f"\x1b[2m{text}\x1b[0m", file=sys.stderr)
        else:
            print(text, file=sys.stderr)

    def expect(self, records: int) -> None:
        """Say how many records there will be, all in all."""
        self._expected = records
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=records)

    def advance(self, records: int, size: int) -> None:
        self.records += records
        self.size += size
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.records, totals=self.total())

    def total(self) -> str:
        """``12,000 records, 1.2 MiB in 0.8 s (15,000/s)``; the rate only where it means something."""
        seconds = self._clock() - self._began
        noun = counted(self.records, "record").split(" ")[1]
        text = f"{self.records:,} {noun}, {show_bytes(self.size)} in {seconds:.1f} s"
        return f"{text} ({self.records / seconds:,.0f}/s)" if self.records >= _MANY and seconds > 0 else text

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[totals]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(self._doing, total=self._expected, totals="")
        self._progress.start()


def show_partitions(partitions: Iterable[TopicPartition]) -> str:
    """``orders 0-2 5, payments 0``; "none" if there are none."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return ", ".join(f"{topic} {_runs(numbers)}" for topic, numbers in by_topic.items()) or "none"


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
