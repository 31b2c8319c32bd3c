"""Records per second of client libraries beside ours, on one broker: ``python -m benchmarks.clients``.

The number of rounds may follow, and ``consume`` or ``produce`` if only one of them is wanted.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.client_load import LOADS
from benchmarks.rounds import Table
from benchmarks.targets import Target, kohort
from kohort.client.producer import Producer

ROOT = Path(__file__).parents[1]
RECORDS = 300_000
RESULTS = Path(__file__).parent / "CLIENTS.md"
_NOTE = "Keys of 8 bytes, values of 100, one partition, no compression; each library in a fresh process."


def measure(what: str, library: str, bootstrap: str, topic: str, records: int) -> tuple[float, float]:
    """Thousand records per second by the clock, and per second of the client's processor time."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client_load", what, library, bootstrap, topic, str(records)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    clock, processor = map(float, done.stdout.split())
    return records / clock / 1_000, records / processor / 1_000


def tables(
    target: Target, rounds: int, whats: Sequence[str] = ("consume", "produce"), records: int = RECORDS
) -> list[Table]:
    """Consume and produce with every library in turn, several times."""
    loads = [(what, library) for what, library in LOADS if what in whats]
    bootstrap, topic = f"{target.host}:{target.port}", "benchmark-clients"
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(records):
            producer.send(topic, value=b"x" * 100, key=b"%08d" % number, partition=0)
        producer.flush()
    clock = {what: Table(f"Clients {what}, by the clock", "thousand/s", _NOTE) for what, _ in loads}
    processor = {
        what: Table(f"Clients {what}, per second of the client's processor time", "thousand/s")
        for what, _ in loads
    }
    for turn in range(rounds):
        for what, library in loads:
            where = topic if what == "consume" else f"produced-{turn}-{library.replace(' ', '-')}"
            rate, efficiency = measure(what, library, bootstrap, where.replace(",", ""), records)
            clock[what].add(library, rate)
            processor[what].add(library, efficiency)
    return [*clock.values(), *processor.values()]


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with kohort() as target:
        found = tables(target, rounds, sys.argv[2:] or ("consume", "produce"))
    made = f"Made by `python -m benchmarks.clients`: the median of {rounds} rounds that alternate."
    head = f"# Client libraries\n\n{made}\n\n"
    RESULTS.write_text(head + "\n".join(table.as_markdown() for table in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
