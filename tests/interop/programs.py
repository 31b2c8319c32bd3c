"""How a foreign client runs: as a process, or in a JVM that all Java clients of a version share."""

import atexit
import os
import queue
import subprocess
import tempfile
import threading
from contextlib import suppress
from itertools import count
from typing import IO, Protocol

from tools.peers import fetch, jvm
from tools.peers.pins import Peer

END_SECONDS = 60.0
LOG_LINES = 40

Lines = queue.Queue[str | None]
"""What a program prints; None is its end."""


class Program(Protocol):
    """One client at work."""

    lines: Lines

    def tell(self, word: str) -> None:
        """Give it a line of input; raises BrokenPipeError when it has ended."""

    def wait(self) -> None:
        """Until it has ended, which its lines have said."""

    def vanish(self) -> None:
        """End it without a word to the broker."""

    def errors(self) -> str:
        """What it said beside its events."""

    def close(self) -> None:
        """End it if it has not ended."""


def _start(command: list[str], environment: dict[str, str], errors: IO[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def _write(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _end(process: "subprocess.Popen[str]", reader: threading.Thread, errors: IO[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    reader.join()
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            with suppress(BrokenPipeError):  # it ended before it read what it was told
                stream.close()


def _tail(errors: IO[str]) -> str:
    errors.seek(0)
    return errors.read()[-3000:]


class Process:
    """A program of its own."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.lines: Lines = queue.Queue()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        self._process = _start(command, environment, self._errors)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def tell(self, word: str) -> None:
        _write(self._process, word)

    def wait(self) -> None:
        self._process.wait(END_SECONDS)

    def vanish(self) -> None:
        self.tell("die")
        self.wait()

    def errors(self) -> str:
        return _tail(self._errors)

    def close(self) -> None:
        _end(self._process, self._reader, self._errors)


class JavaProcess:
    """A JVM in which any number of clients run at the same time: two seconds of its own would go to each."""

    def __init__(self, peer: Peer) -> None:
        archive = f"-XX:SharedArchiveFile={fetch.class_archive(peer)}"
        self.log: list[str] = []
        self._clients: dict[str, Lines] = {}
        self._numbers = map(str, count(1))
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        command = jvm.command(fetch.class_path(peer), "Peer", heap="256m", options=[archive])
        self._process = _start(command, {}, self._errors)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, _, event = line.rstrip("\n").partition(" ")
            with self._lock:
                client = self._clients.get(number) if event else self._clients.pop(number, None)
            if client is None:  # Java's clients log their errors to standard output
                self.log = [*self.log[1 - LOG_LINES :], line]
            else:
                client.put(event or None)
        with self._lock:
            for client in self._clients.values():
                client.put(None)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def run(self, arguments: list[str], *, alone: bool) -> "JavaClient":
        """Another client."""
        client = JavaClient(self, number := next(self._numbers), alone=alone)
        with self._lock:
            self._clients[number] = client.lines
        self.tell(number, "\t".join(arguments))
        return client

    def tell(self, number: str, words: str) -> None:
        with self._lock:
            _write(self._process, f"{number}\t{words}")

    def stop(self, number: str) -> None:
        """Tell a client to leave if it is still at work; nobody waits for it."""
        with self._lock, suppress(BrokenPipeError):
            if number in self._clients:
                _write(self._process, f"{number}\tstop")

    def wait(self) -> None:
        self._process.wait(END_SECONDS)

    def errors(self) -> str:
        return "".join(self.log) + _tail(self._errors)

    def close(self) -> None:
        _end(self._process, self._reader, self._errors)


class JavaClient:
    """One of the clients in a JVM; ``alone``: in a JVM of its own, so that it can vanish."""

    def __init__(self, home: JavaProcess, number: str, *, alone: bool) -> None:
        self.lines: Lines = queue.Queue()
        self._home, self._number, self._alone = home, number, alone

    def tell(self, word: str) -> None:
        self._home.tell(self._number, word)

    def wait(self) -> None:
        """There is nothing to wait for: its JVM goes on."""

    def vanish(self) -> None:
        assert self._alone, "others are in the same JVM: start it with alone=True"
        self.tell("die")
        self._home.wait()

    def errors(self) -> str:
        return self._home.errors()

    def close(self) -> None:
        if self._alone:
            self._home.close()
        else:
            self._home.stop(self._number)


_SHARED: dict[Peer, JavaProcess] = {}


def java_client(peer: Peer, arguments: list[str], *, alone: bool) -> JavaClient:
    """A Java client at work, beside the others of its version if it need not be alone."""
    if alone:
        return JavaProcess(peer).run(arguments, alone=True)
    if peer not in _SHARED or _SHARED[peer].has_ended:
        _SHARED[peer] = JavaProcess(peer)
        atexit.register(_SHARED[peer].close)
    return _SHARED[peer].run(arguments, alone=False)
