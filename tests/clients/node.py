"""``kohort serve`` as a process of its own, which tests may stop, start again and kill."""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.clients.waiting import Deadline

from kohort.testing.ports import HeldPort

LISTENING = b"kohort: listening on "
STOP_SECONDS = 60.0


class Node:
    """A broker on one directory and one port."""

    def __init__(self, data: Path, configs: Mapping[str, str | int] | None = None, *options: str) -> None:
        self._port = HeldPort()
        self.bootstrap = f"127.0.0.1:{self._port.number}"
        sets = [part for name, value in (configs or {}).items() for part in ("--set", f"{name}={value}")]
        self._arguments = ["--data", str(data), "--log-level", "warning", *sets, *options]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the node
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._process is not None:
                self.stop()
            assert kind is not None or "Traceback" not in self.said(), self.said()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._errors.close()
        self._port.close()

    def start(self) -> None:
        """Start the process and wait until it says where it listens."""
        program = str(Path(sys.executable).parent / "kohort")
        command = [program, "serve", "--listen", self.bootstrap, *self._arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors
        )
        self.bootstrap = self._address()

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    def stop(self) -> None:
        """SIGTERM, and wait: a clean stop, or the test fails with what the broker said."""
        code = self._end(signal.SIGTERM)
        assert code == 0, f"the broker ended with {code}:\n{self.said()}"

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed."""
        self._end(signal.SIGKILL)

    def said(self) -> str:
        """What the broker wrote to standard error so far."""
        # Read at a position of our own: the process appends through the same open file.
        return os.pread(self._errors.fileno(), 1_000_000, 0).decode(errors="replace")

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None, "the broker does not run"
        assert process.stdout is not None
        with process.stdout:
            process.send_signal(number)
            try:
                return process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def _address(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout
        deadline = Deadline("the broker to listen")
        while True:
            deadline.check(self.said())
            ready, _, _ = select.select([output], [], [], 1.0)
            if not ready:
                continue
            line = output.readline()
            if line.startswith(LISTENING):
                return line.removeprefix(LISTENING).decode().strip()
            if not line:
                self._end(signal.SIGKILL)
                raise AssertionError(f"the broker did not start:\n{self.said()}")
