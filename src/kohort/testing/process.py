"""``kohort serve`` as a process of its own, which tests may stop, start again, kill and pause."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from kohort.model.errors import KohortError
from kohort.testing.ports import HeldPort

_LISTENING = b"kohort: listening on "
_PATIENCE_S = 60.0


class BrokerProcessError(KohortError):
    """A broker did not start, or did not stop cleanly; what it logged is in the text."""


_WITH_ANOTHER_CLOCK = """
import runpy, sys, time
real, ahead = time.time_ns, int(sys.argv.pop(1)) * 10**9
time.time_ns = lambda: real() + ahead
time.time = lambda: time.time_ns() / 10**9
runpy.run_module("kohort.cli.main", run_name="__main__")
"""


class BrokerProcess:
    """A broker on a port that it keeps while it is down. ``options`` are those of ``kohort serve``.

    ``clock_ahead_s`` says how far its wall clock is from that of the machine.
    """

    def __init__(
        self, *options: str, configs: Mapping[str, str | int] | None = None, clock_ahead_s: int = 0
    ) -> None:
        self._clock_ahead_s = clock_ahead_s
        self._port = HeldPort()
        self.bootstrap = f"127.0.0.1:{self._port.number}"
        sets = [part for name, value in (configs or {}).items() for part in ("--set", f"{name}={value}")]
        self._arguments = ["--log-level", "warning", *sets, *options]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the broker
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False

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
            if self.is_running:
                self.stop()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._errors.close()
        self._port.close()

    def start(self) -> None:
        """Start the process and wait until it says where it listens."""
        self.begin()
        self.wait_until_listening()

    def begin(self) -> None:
        """Start the process and do not wait."""
        program = ["-m", "kohort.cli.main"]
        if self._clock_ahead_s:
            program = ["-c", _WITH_ANOTHER_CLOCK, str(self._clock_ahead_s)]
        command = [sys.executable, *program, "serve", "--listen", self.bootstrap, *self._arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors
        )

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def answers(self) -> bool:
        """Whether it runs and does not stand still."""
        return self.is_running and not self._is_paused

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    def stop(self) -> None:
        """SIGTERM, and wait. Raises BrokerProcessError if the broker does not end cleanly."""
        if (code := self._end(signal.SIGTERM)) != 0:
            raise BrokerProcessError(f"the broker ended with {code}:\n{self.said()}")

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT: it goes on, and does not know how long it stood still."""
        os.kill(self.pid, signal.SIGCONT)
        self._is_paused = False

    def said(self) -> str:
        """What the broker wrote to standard error so far."""
        # Read at a position of our own: the process appends through the same open file.
        return os.pread(self._errors.fileno(), 1_000_000, 0).decode(errors="replace")

    def _end(self, number: signal.Signals) -> int:
        process, self._process, self._is_paused = self._process, None, False
        assert process is not None, "the broker does not run"
        assert process.stdout is not None
        with process.stdout:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # one that stands still hears nothing but SIGKILL
            try:
                return process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def wait_until_listening(self) -> None:
        """Wait until the broker says where it listens. Raises BrokerProcessError if it ends instead."""
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            ready, _, _ = select.select([output], [], [], 1.0)
            line = output.readline() if ready else None
            if line == b"" or time.monotonic() > deadline:
                self.kill()
                raise BrokerProcessError(f"the broker did not start:\n{self.said()}")
            if line is not None and line.startswith(_LISTENING):
                self.bootstrap = line.removeprefix(_LISTENING).decode().strip()
                return
