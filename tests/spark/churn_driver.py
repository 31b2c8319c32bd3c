"""The parent's end of ``group_job``: a Spark driver in processes of its own, under orders or killed."""

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.spark.group_job import rows_of

from kohort.spark.group.offsets import from_json, ranges_of
from kohort.spark.offsets import OffsetRange

PATIENCE_SECONDS = 240.0  # several JVMs on a busy machine
_log = logging.getLogger(__name__)
_JOB = Path(__file__).with_name("group_job.py")


class Driver:
    """One query with its checkpoint, over all the processes that run it one after the other."""

    def __init__(self, name: str, root: Path, order: tuple[str, ...]) -> None:
        """``order``: what ``group_job`` is told besides the root."""
        self.name = name
        self.replayed: list[OffsetRange] = []  # of batches that were cut off: read again by a restart
        self._root = root / name
        self._root.mkdir(parents=True)
        self._order = order
        self._process: subprocess.Popen[bytes] | None = None

    # --- orders -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the processes and the query; ``wait`` for ``running``."""
        bootstrap, topic, group, *more = self._order
        environment = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._root / "local"),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(_JOB), bootstrap, topic, group, str(self._root), *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._root,
                env=environment,
            )
        self.tell("start")

    def tell(self, order: str) -> None:
        """``start`` or ``stop`` the query, or ``drain`` it."""
        if order == "start":
            self.replayed += self.unfinished()
        _pipe(self._running.stdin).write(order.encode() + b"\n")
        _pipe(self._running.stdin).flush()

    def wait(self, word: str, seconds: float = PATIENCE_SECONDS) -> None:
        """For the answer to an order."""
        _log.info("waiting for %s: %s", self.name, word)
        output = _pipe(self._running.stdout)
        assert select.select([output], [], [], seconds)[0], f"{self.name} said nothing for {seconds} s"
        said = output.readline().decode().strip()
        assert said == word, f"{self.name} said {said!r}\n{self.complaints()}"

    def check(self) -> None:
        """It has not died by itself."""
        assert self._running.poll() is None, self.complaints()

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and every Python of theirs, as when the machine goes."""
        process = self._running
        for number in [*_descendants(process.pid), process.pid]:  # the JVM first: it would notice
            _kill(number)
        self._reap()

    def end(self) -> None:
        """Let it end in order; the query has been stopped before."""
        _pipe(self._running.stdin).close()
        assert self._running.wait(PATIENCE_SECONDS) == 0, self.complaints()
        self._reap()

    def close(self) -> None:
        """Whatever has happened: nothing stays behind."""
        if self._process is not None:
            self.kill()

    # --- what it has done ---------------------------------------------------------------------

    def rows(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of everything its checkpoint has written, sorted."""
        return rows_of(self._root)

    def batches(self) -> int:
        """How many are recorded as done."""
        return len(self._numbers("commits"))

    def unfinished(self) -> list[OffsetRange]:
        """The ranges of a batch that was planned and not finished."""
        planned, done = self._numbers("offsets"), self._numbers("commits")
        newest = max(planned - done, default=None)
        if newest is None:
            return []
        lines = (self._root / "checkpoint" / "offsets" / str(newest)).read_text().splitlines()
        return ranges_of(from_json(json.loads(lines[-1])))

    def complaints(self) -> str:
        """The last of what Spark and Python have written to standard error."""
        return self._errors.read_text()[-5_000:]

    def _numbers(self, log: str) -> set[int]:
        place = self._root / "checkpoint" / log
        names = os.listdir(place) if place.is_dir() else []
        return {int(name) for name in names if name.isdecimal()}

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def _errors(self) -> Path:
        return self._root / "errors.txt"

    def _reap(self) -> None:
        process, self._process = self._running, None
        process.wait(PATIENCE_SECONDS)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):  # an order that nobody took
                _pipe(pipe).close()


def _descendants(root: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(line.split()[0]): int(line.split()[1]) for line in listed.stdout.splitlines()}
    found = [root]
    for number in found:
        found += [child for child, parent in parents.items() if parent == number]
    return found[1:]


def _kill(number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it went with its parent
        os.kill(number, signal.SIGKILL)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
