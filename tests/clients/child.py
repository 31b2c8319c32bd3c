"""A member of a group in a process of its own, which a test can kill.

Run as a program it joins, processes what it gets, commits after every poll, and tells its parent each step
in one line of JSON *before* the step can have consequences for others.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.ledger import Ledger  # noqa: E402 (needs the path above)
from tests.clients.libraries import POLL_SECONDS, Got, Library, Membership, NotCommittedError, ReadPartition  # noqa: E402

Row = tuple[str, int, int]


class Child:
    """The parent's end: a ``Member`` whose reports go into the ledger."""

    def __init__(self, library: str, bootstrap: str, membership: Membership, ledger: Ledger) -> None:
        self.name = membership.name
        self._ledger = ledger
        self._pending = b""
        self._reading = threading.RLock()
        self._busy = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        order = json.dumps({"library": library, "bootstrap": bootstrap, "membership": asdict(membership)})
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), order],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        ledger.before_each_change.append(self.read_reports)

    def poll(self) -> int:
        """Give the child a moment, then read what it reported."""
        select.select([self._output], [], [], POLL_SECONDS)
        self.read_reports()
        return 0

    def kill(self) -> None:
        """SIGKILL; everything it had reported is in the ledger afterwards."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.read_reports()
        self._ledger.vanished(self.name)
        self.close()

    def close(self) -> None:
        if self.read_reports in self._ledger.before_each_change:
            self._ledger.before_each_change.remove(self.read_reports)
        self._process.kill()
        self._process.wait()
        self._output.close()
        self._errors.close()

    def read_reports(self) -> None:
        """Put into the ledger what lies in the pipe. Any thread may call this; order is kept."""
        with self._reading:
            if self._busy:
                return  # the ledger asks again while it is told
            self._busy = True
            try:
                for line in self._lines():
                    self._note(*json.loads(line))
            finally:
                self._busy = False

    @property
    def _output(self) -> Any:  # noqa: ANN401 - a pipe; Popen's type says it may be missing
        return self._process.stdout

    def _lines(self) -> list[bytes]:
        while not self._output.closed and select.select([self._output], [], [], 0)[0]:
            chunk = os.read(self._output.fileno(), 65_536)
            if not chunk:
                break
            self._pending += chunk
        *lines, self._pending = self._pending.split(b"\n")
        said = os.pread(self._errors.fileno(), 10_000, 0)
        assert self._process.poll() in (None, -signal.SIGKILL), said.decode(errors="replace")
        return lines

    def _note(self, what: str, rows: list[Row]) -> None:
        places = [ReadPartition(topic, partition) for topic, partition, _ in rows]
        offsets = {ReadPartition(topic, partition): offset for topic, partition, offset in rows}
        match what:
            case "assigned":
                self._ledger.assigned(self.name, places)
            case "revoked":
                self._ledger.revoked(self.name, places)
            case "processed":
                for place, (_, _, offset) in zip(places, rows, strict=True):
                    self._ledger.processed(self.name, place, offset)
            case "committing":
                self._ledger.committing(offsets)
            case "committed":
                self._ledger.committed(offsets)
            case "refused":
                self._ledger.refused(offsets)


class Reporter:
    """The child's end of the pipe: a ``Watcher`` that remembers what may be committed."""

    def __init__(self) -> None:
        self.positions: dict[ReadPartition, int] = {}

    def say(self, what: str, rows: Iterable[Row]) -> None:
        os.write(1, json.dumps([what, list(rows)]).encode() + b"\n")

    def say_offsets(self, what: str, offsets: Mapping[ReadPartition, int]) -> None:
        self.say(what, [(*place, offset) for place, offset in offsets.items()])

    def assigned(self, _member: str, places: Iterable[ReadPartition]) -> None:
        self.say("assigned", [(*place, 0) for place in places])

    def revoked(self, _member: str, places: Iterable[ReadPartition]) -> None:
        given_up = list(places)
        for place in given_up:
            self.positions.pop(place, None)
        self.say("revoked", [(*place, 0) for place in given_up])

    def consumed(self, _member: str, records: Sequence[Got]) -> None:
        if records:
            self.positions.update({record.place: record.offset + 1 for record in records})
            self.say("processed", [(*record.place, record.offset) for record in records])


def library_named(name: str) -> Library:
    """Import only the library that is asked for."""
    if name == "confluent":
        from tests.clients.with_confluent import Confluent

        return Confluent()
    if name == "kafka-python":
        from tests.clients.with_kafka_python import KafkaPython

        return KafkaPython()
    if name == "own":
        from tests.clients.with_own import Own

        return Own()
    from tests.clients.with_aiokafka import Aiokafka, LoopThread

    return Aiokafka(LoopThread())


def work(library: str, bootstrap: str, membership: dict[str, Any]) -> None:
    """Process and commit until killed."""
    how: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in membership.items()
    }
    reporter = Reporter()
    member = library_named(library).join(bootstrap, Membership(**how), reporter)
    while True:
        member.poll()
        offsets = dict(reporter.positions)
        if not offsets:
            continue
        reporter.say_offsets("committing", offsets)
        try:
            member.commit(offsets)
        except NotCommittedError as error:
            if not error.maybe:
                reporter.say_offsets("refused", offsets)
        else:
            reporter.say_offsets("committed", offsets)


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
