"""A Spark job beside the broker: a command of Kohort as a child, watched, and begun again when it dies.

Spark needs its own process, takes a while to start and may not be there at all; the broker does not wait.
"""

import asyncio
import json
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Generic, TextIO, TypeVar

from kohort.cli.pipeline.options import UNAVAILABLE
from kohort.cli.up.services import Row

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_HEALTHY_SECONDS = 120.0
_KINDNESS = 5  # the broker comes first where cores are few


class ChildPhase(StrEnum):
    """Where the child is in its life, in a word for people."""

    OFF = "off"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(slots=True)
class ChildView:
    """What is known of the child: for the screen."""

    phase: ChildPhase = ChildPhase.OFF
    detail: str = ""
    rows: int = 0
    landed_at: float | None = None


View = TypeVar("View", bound=ChildView)


class ChildService(ABC, Generic[View]):
    """A child that writes to a directory of its own and says in lines of JSON what it does."""

    name: ClassVar[str]
    title: ClassVar[str]  # what is in the directory
    begins: ClassVar[str] = "Spark is starting"
    stop_seconds: ClassVar[float] = 6.0

    def __init__(
        self,
        data: Path,
        bootstrap: Callable[[], str],
        changed: Callable[[View], None] = lambda _: None,
    ) -> None:
        self.directory = self._directory(data)
        self.view = self._first_view()
        self._bootstrap = bootstrap
        self._changed = changed
        self._watching: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What the child is started with."""

    @abstractmethod
    def query(self) -> str:
        """A command that reads what the child has written."""

    @abstractmethod
    def examples(self) -> list[str]:
        """Commands to try, with the query."""

    @abstractmethod
    def _first_view(self) -> View: ...

    @abstractmethod
    def _heard(self, event: dict[str, object]) -> None:
        """Take note of a line of the child."""

    def _directory(self, data: Path) -> Path:
        return directory_beside(data, self.name)

    def suggestions(self) -> list[str]:
        if self.view.phase is ChildPhase.OFF:
            return []
        return ["", f"{self.title}:", *(f"  {example}" for example in self.examples())]

    @property
    def where(self) -> str:
        """The directory as it is typed."""
        return os.path.relpath(self.directory)

    async def _until_needed(self) -> None:
        """Return when the child has something to do."""

    async def start(self) -> list[Row]:
        """Returns at once; Spark comes up in the background, or the row says why it does not."""
        missing = missing_module()
        if missing is not None:
            self.view.detail = f"{missing} is not installed: pip install 'kohort[spark]'"
            return [Row(self.name, f"off: {self.view.detail}")]
        self.view.phase = ChildPhase.STARTING
        self._watching = asyncio.create_task(self._keep_running())
        kept = str(self.directory.resolve())
        return [Row(self.name, f"{kept} ({self.begins})", kept, self.query())]

    async def stop(self) -> None:
        """Let the child finish what it is at; after a while end it: nothing is lost by that."""
        if self._watching is None:
            return
        self._show(ChildPhase.STOPPING)
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        child = self._child
        if child is not None:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.terminate()
                with suppress(TimeoutError):
                    await asyncio.wait_for(child.wait(), self.stop_seconds)
            end_session(child.pid)
            await child.wait()
        self._show(ChildPhase.STOPPED)

    async def _keep_running(self) -> None:
        await self._until_needed()
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            code = await self._run()
            if code == UNAVAILABLE:
                self._show(ChildPhase.OFF, self._last_error())
                return
            if time.monotonic() - began > _HEALTHY_SECONDS:
                pause = _FIRST_PAUSE
            self._show(
                ChildPhase.RESTARTING,
                f"in {pause:g} s: {self._last_error() or f'it ended with code {code}'}",
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            self._show(ChildPhase.STARTING)

    async def _run(self) -> int:
        """One life of the child; its exit code."""
        with self._open_log() as log:
            self._child = await asyncio.create_subprocess_exec(
                *self.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._child.pid, _KINDNESS)
        assert self._child.stdout is not None
        async for line in self._child.stdout:
            with suppress(ValueError):
                self._heard(json.loads(line))
        code = await self._child.wait()
        end_session(self._child.pid)
        return code

    def _open_log(self) -> TextIO:
        log = self.log
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("w")

    @property
    def log(self) -> Path:
        """What Spark and the child have to say, since its last start."""
        return self.directory / "_kohort" / f"{self.name}.log"

    def _last_error(self) -> str:
        """The last line of the log that is ours."""
        prefix = "kohort: error: "
        with suppress(OSError):
            errors = [line for line in self.log.read_text(errors="replace").splitlines() if prefix in line]
            return errors[-1].partition(prefix)[2] if errors else ""
        return ""

    def _landed(self, rows: int) -> None:
        self.view.rows += rows
        self.view.landed_at = time.monotonic()
        self._show(ChildPhase.RUNNING)

    def _show(self, phase: ChildPhase, detail: str = "") -> None:
        self.view.phase, self.view.detail = phase, detail
        self._changed(self.view)


def directory_beside(data: Path, name: str) -> Path:
    """Where a child of this data directory writes.

    Not inside: Kafka does not start on a log directory that has anything but partitions in it.
    """
    whole = data.resolve()
    return whole.parent / f"{whole.name}-{name}"


def own_process(command: Sequence[str], options: Mapping[str, str]) -> Sequence[str]:
    """The line that runs a command of Kohort in this Python, with its events as JSON."""
    given = [word for option in options.items() for word in option]
    return [sys.executable, "-m", "kohort.cli.main", *command, *given, "--json"]


def missing_module() -> str | None:
    """What of ``kohort[spark]`` is not installed."""
    return next((name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None), None)


def end_session(leader: int) -> None:
    """End whatever a child has left running: a JVM that was still starting, say."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
