"""Records per second of client libraries beside ours, on one broker: ``python -m benchmarks.clients``.

The number of rounds may follow, and ``consume`` or ``produce`` if only one of them is wanted.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from benchmarks.client_load import LOADS
from benchmarks.rounds import Table
from benchmarks.targets import Target, kohort
from kohort.client.producer import Producer

ROOT = Path(__file__).parents[1]
RECORDS = 300_000
RESULTS = Path(__file__).parent / "CLIENTS.md"
_PLAIN = "Keys of 8 bytes, values of 100, one partition, no compression; each library in a fresh process."
_PACKED = "The same with values of 60 to 140 bytes of text, in lz4."
_WORDS = (
    b"a value like many others, of some length or other, that says nothing much about anything at all, " * 2
)


def measure(what: str, library: str, bootstrap: str, topic: str, records: int) -> tuple[float, float]:
    """Thousand records per second by the clock, and per second of the client's processor time."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client_load", what, library, bootstrap, topic, str(records)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    clock, processor = map(float, done.stdout.split())
    return records / clock / 1_000, records / processor / 1_000


def fill(bootstrap: str, topic: str, values: Iterator[bytes], codec: Literal["none", "lz4"]) -> str:
    """Write what is to be consumed; the name of the topic."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=20, compression_type=codec) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value=value, key=b"%08d" % number, partition=0)
        producer.flush()
    return topic


def texts(records: int) -> Iterator[bytes]:
    return (b"%d %s" % (number, _WORDS[: 53 + number * 7 % 81]) for number in range(records))


def tables(
    target: Target, rounds: int, whats: Sequence[str] = ("consume", "produce"), records: int = RECORDS
) -> list[Table]:
    """Consume and produce with every library in turn, several times."""
    bootstrap = f"{target.host}:{target.port}"
    topics = {
        "consume": fill(bootstrap, "benchmark-clients", iter([b"x" * 100] * records), "none"),
        "consume lz4": fill(bootstrap, "benchmark-clients-lz4", texts(records), "lz4"),
    }
    loads = [
        (title, what, library)
        for title in ("consume", "consume lz4", "produce")
        for what, library in LOADS
        if what in whats and title.startswith(what)
    ]
    notes = {"consume lz4": _PACKED}
    clock = {
        title: Table(f"Clients {title}, by the clock", "thousand/s", notes.get(title, _PLAIN))
        for title, _, _ in loads
    }
    processor = {
        title: Table(f"Clients {title}, per second of the client's processor time", "thousand/s")
        for title in clock
    }
    for turn in range(rounds):
        for title, what, library in loads:
            where = topics.get(title, f"produced-{turn}-{library.replace(' ', '-')}".replace(",", ""))
            rate, efficiency = measure(what, library, bootstrap, where, records)
            clock[title].add(library, rate)
            processor[title].add(library, efficiency)
    return [*clock.values(), *processor.values()]


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with kohort() as target:
        found = tables(target, rounds, sys.argv[2:] or ("consume", "produce"))
    today = datetime.now(UTC).date()
    made = f"Made by `python -m benchmarks.clients` on {today}: the median of {rounds} rounds that alternate."
    head = f"# Client libraries\n\n{made}\n\n"
    RESULTS.write_text(head + "\n".join(table.as_markdown() for table in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
