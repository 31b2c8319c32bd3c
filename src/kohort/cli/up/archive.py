"""The archive beside the broker: ``kohort pipeline archive`` as a child, begun again when it dies.

Spark needs its own process, takes a while to start and may not be there at all; the broker does not wait.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from kohort.cli.pipeline.options import UNAVAILABLE
from kohort.cli.up.services import Row, own_command

GROUP = "kohort-archive"
ALL_TOPICS = ".*"  # internal ones are left out

_STOP_SECONDS = 6.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_HEALTHY_SECONDS = 120.0
_KINDNESS = 5  # the broker comes first where cores are few
_TRIGGER, _MEMORY = "5", "512m"


class ArchivePhase(StrEnum):
    """Where the child is in its life, in a word for people."""

    OFF = "off"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(slots=True)
class ArchiveView:
    """What is known of the child: for the screen."""

    phase: ArchivePhase = ArchivePhase.OFF
    detail: str = ""
    batches: int = 0
    rows: int = 0
    bad: int = 0
    landed_at: float | None = None


class ArchiveService:
    """The pipeline over all topics, into a directory of its own."""

    def __init__(
        self,
        data: Path,
        bootstrap: Callable[[], str],
        changed: Callable[[ArchiveView], None] = lambda _: None,
    ) -> None:
        self.directory = archive_directory(data)
        self.view = ArchiveView()
        self._bootstrap = bootstrap
        self._changed = changed
        self._watching: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None

    async def start(self) -> list[Row]:
        """Returns at once; Spark comes up in the background, or the row says why it does not."""
        missing = missing_module()
        if missing is not None:
            self.view.detail = f"{missing} is not installed: pip install 'kohort[spark]'"
            return [Row("archive", f"off: {self.view.detail}")]
        self.view.phase = ArchivePhase.STARTING
        self._watching = asyncio.create_task(self._keep_running())
        kept = str(self.directory.resolve())
        return [Row("archive", f"{kept} (Spark is starting)", kept)]

    async def stop(self) -> None:
        """Let the child finish its batch, commit and leave; after a while end it: nothing is lost by that."""
        if self._watching is None:
            return
        self._show(ArchivePhase.STOPPING)
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        child = self._child
        if child is not None:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.terminate()
                with suppress(TimeoutError):
                    await asyncio.wait_for(child.wait(), _STOP_SECONDS)
            end_session(child.pid)
            await child.wait()
        self._show(ArchivePhase.STOPPED)

    def suggestions(self) -> list[str]:
        if self.view.phase is ArchivePhase.OFF:
            return []
        where = os.path.relpath(self.directory)
        return [
            "",
            "The topics as Parquet tables, for any tool:",
            f"  {own_command()} pipeline status --to {where}",
            f'  {own_command()} pipeline sql --to {where} "select * from orders"',
        ]

    async def _keep_running(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            code = await self._run()
            if code == UNAVAILABLE:
                self._show(ArchivePhase.OFF, self._last_error())
                return
            if time.monotonic() - began > _HEALTHY_SECONDS:
                pause = _FIRST_PAUSE
            self._show(
                ArchivePhase.RESTARTING,
                f"in {pause:g} s: {self._last_error() or f'it ended with code {code}'}",
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            self._show(ArchivePhase.STARTING)

    async def _run(self) -> int:
        """One life of the child; its exit code."""
        with self._open_log() as log:
            self._child = await asyncio.create_subprocess_exec(
                *command(self.directory, self._bootstrap()),
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
        """What Spark and the pipeline have to say, since its last start."""
        return self.directory / "_kohort" / "archive.log"

    def _last_error(self) -> str:
        """The last line of the log that is ours."""
        prefix = "kohort: error: "
        with suppress(OSError):
            errors = [line for line in self.log.read_text(errors="replace").splitlines() if prefix in line]
            return errors[-1].partition(prefix)[2] if errors else ""
        return ""

    def _heard(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "started"}:
                self._show(ArchivePhase.RUNNING)
            case {"event": "landed", "rows": dict(rows), "bad": int(bad)}:
                self.view.batches += 1
                self.view.rows += sum(rows.values())
                self.view.bad += bad
                self.view.landed_at = time.monotonic()
                self._show(ArchivePhase.RUNNING)
            case {"event": "trouble", "what": str(what)}:
                self._show(self.view.phase, what)

    def _show(self, phase: ArchivePhase, detail: str = "") -> None:
        self.view.phase, self.view.detail = phase, detail
        self._changed(self.view)


def archive_directory(data: Path) -> Path:
    """Where the archive of this data directory is: beside it.

    Not inside: Kafka does not start on a log directory that has anything but partitions in it. One that was
    begun inside, by an earlier version, goes on where it is.
    """
    inside = data / "archive"
    whole = data.resolve()
    return inside if inside.is_dir() else whole.parent / f"{whole.name}-archive"


def missing_module() -> str | None:
    """What of ``kohort[spark]`` is not installed."""
    return next((name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None), None)


def command(directory: Path, bootstrap: str) -> Sequence[str]:
    """What the child is started with."""
    options = {
        "--topics": ALL_TOPICS,
        "--to": str(directory),
        "--group": GROUP,
        "--bootstrap": bootstrap,
        "--trigger": _TRIGGER,
        "--memory": _MEMORY,
    }
    given = [word for option in options.items() for word in option]
    return [sys.executable, "-m", "kohort.cli.main", "pipeline", "archive", *given, "--json"]


def end_session(leader: int) -> None:
    """End whatever a child has left running: a JVM that was still starting, say."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
