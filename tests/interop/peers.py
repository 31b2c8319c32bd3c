"""Foreign clients as processes: started with steps to do, read as a stream of events.

Every program in ``java/``, ``js/``, ``go/`` and ``python/`` has the same command line (BOOTSTRAP STEPS
name=value …) and prints the same events, so one test speaks for all of them. ``README.md`` lists them.
"""

import json
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.programs import Process, Program, java_client
from tools.peers import fetch
from tools.peers.cache import JS_SOURCES
from tools.peers.pins import Peer

Event = dict[str, Any]
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EVENT_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Client:
    """One client library and what it can do."""

    name: str
    peer: Peer
    codecs: tuple[str, ...] = ALL_CODECS
    assignors: tuple[str, ...] = ("range", "roundrobin", "sticky")
    static: bool = True

    def __str__(self) -> str:
        return self.name

    def start(self, arguments: list[str], *, alone: bool) -> Program:
        """Its program at work. Java's clients share a JVM, unless one wants to be alone."""
        if self.peer is Peer.KAFKAJS:
            modules = {"NODE_PATH": str(fetch.node_modules())}
            return Process(["node", str(JS_SOURCES / "peer.js"), *arguments], modules)
        if self.peer is Peer.GO:
            return Process([str(fetch.go_programs() / self.name), *arguments], {})
        return java_client(self.peer, arguments, alone=alone)


COOPERATIVE = ("range", "roundrobin", "sticky", "cooperative-sticky")
CLIENTS = (
    Client("java-3.9", Peer.JAVA_39, assignors=COOPERATIVE),
    Client("java-4", Peer.JAVA_4, assignors=COOPERATIVE),
    Client("kafkajs", Peer.KAFKAJS, codecs=("none", "gzip", "snappy"), assignors=(), static=False),
    Client("franz", Peer.GO, assignors=COOPERATIVE),
    Client("sarama", Peer.GO),
)
BY_NAME = {client.name: client for client in CLIENTS}


class Librdkafka:
    """librdkafka, as a member of a group: a program of this Python."""

    name = "librdkafka"

    def start(self, arguments: list[str], *, alone: bool) -> Program:
        return Process(
            [sys.executable, str(Path(__file__).parent / "python" / "librdkafka.py"), *arguments], {}
        )


class PeerError(AssertionError):
    """A peer reported an error, ended early, or stayed silent; the message holds all it said."""


class PeerProcess:
    """A running client. Made by ``started``; all methods are for the thread that made it."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.events: list[Event] = []
        self._program = program

    def _next(self, deadline: float, waiting_for: str) -> Event | None:
        """The next event, or None when the process has ended."""
        try:
            line = self._program.lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise PeerError(f"{self.name}: no {waiting_for} in time\n{self.story()}") from None
        if line is None:
            return None
        # Java's clients log their errors to standard output: kept for the story.
        event: Event = json.loads(line) if line.startswith("{") else {"event": "log", "line": line}
        self.events.append(event)
        if event["event"] == "error" and not event.get("restart"):
            raise PeerError(f"{self.name}: {event}\n{self.story()}")
        return event

    def until(
        self, waiting_for: str, enough: Callable[["PeerProcess"], bool], seconds: float = EVENT_SECONDS
    ) -> None:
        """Read events until ``enough`` is true of what was seen so far; raises PeerError."""
        deadline = time.monotonic() + seconds
        while not enough(self):
            if self._next(deadline, waiting_for) is None:
                raise PeerError(f"{self.name}: ended without {waiting_for}\n{self.story()}")

    def until_outside(
        self, waiting_for: str, enough: Callable[[], bool], seconds: float = EVENT_SECONDS
    ) -> None:
        """Wait for something that is not an event, while this peer goes on without an error."""
        deadline = time.monotonic() + seconds
        while not enough():
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name}: no {waiting_for} in time\n{self.story()}")
            self.hear(waiting_for)

    def hear(self, waiting_for: str) -> None:
        """Read the next event if it comes at once."""
        try:
            self._next(time.monotonic() + 0.1, waiting_for)
        except PeerError:
            if self.events and self.events[-1]["event"] == "error":
                raise

    def finish(self, seconds: float = EVENT_SECONDS) -> list[Event]:
        """Read to the end and return all events; raises PeerError unless the last one is "done"."""
        deadline = time.monotonic() + seconds
        while self._next(deadline, "end") is not None:
            pass
        self._program.wait()
        if not self.events or self.events[-1]["event"] != "done":
            raise PeerError(f"{self.name}: did not say that it was done\n{self.story()}")
        return self.events

    def tell(self, word: str) -> None:
        """Send a word: "stop" leaves the group."""
        try:
            self._program.tell(word)
        except BrokenPipeError as error:
            self.finish()  # which says why, if the peer did
            raise PeerError(f"{self.name}: has ended\n{self.story()}") from error

    def die(self) -> None:
        """Vanish without a word to the broker."""
        self._program.vanish()

    def leave(self) -> list[Event]:
        """Leave the group in good order and return all events."""
        self.tell("stop")
        return self.finish()

    def named(self, event: str) -> list[Event]:
        """The events of one kind seen so far."""
        return [each for each in self.events if each["event"] == event]

    def owned(self) -> set[str]:
        """The partitions this member holds after the events seen so far."""
        held: set[str] = set()
        for event in self.events:
            if event["event"] == "assigned":
                held |= set(event["partitions"])
            elif event["event"] in ("revoked", "lost"):
                held -= set(event["partitions"])
        return held

    def story(self) -> str:
        """Everything the peer said, for a failure message."""
        said = "\n".join(json.dumps(event) for event in self.events[-40:])
        return f"--- events\n{said}\n--- standard error\n{self._program.errors()}"


def until_together(waiting_for: str, peers: list[PeerProcess], enough: Callable[[], bool]) -> None:
    """Read events of all peers in turn until ``enough`` is true of what was seen so far; raises PeerError.

    A share that is right for one peer may be that of a generation before the last member came.
    """
    deadline = time.monotonic() + EVENT_SECONDS
    while not enough():
        if time.monotonic() > deadline:
            raise PeerError("\n".join([f"no {waiting_for} in time", *(peer.story() for peer in peers)]))
        for peer in peers:
            peer.hear(waiting_for)


@contextmanager
def started(
    client: Client | Librdkafka, bootstrap: str, steps: str, **options: object
) -> Iterator[PeerProcess]:
    """A client doing ``steps``; stopped when the block ends. One that is to die must be ``alone``."""
    alone = bool(options.pop("alone", False))  # no option of the client
    program = client.start(
        [bootstrap, steps, *(f"{name}={value}" for name, value in options.items())], alone=alone
    )
    try:
        yield PeerProcess(client.name, program)
    finally:
        program.close()


def run_steps(client: Client, bootstrap: str, steps: str, **options: object) -> list[Event]:
    """Do the steps and return all events; raises PeerError."""
    with started(client, bootstrap, steps, **options) as peer:
        return peer.finish(100.0)
