"""``make bench``: measure everything, beside whatever peers can be had, and write RESULTS.md."""

import argparse
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import (
    capacity,
    clients,
    cluster,
    codec,
    doors,
    groups,
    holds,
    lake,
    requests,
    rolling,
    spark,
    startup,
    throughput,
)
from benchmarks.processes import processor_seconds
from benchmarks.rounds import Table, alternate
from benchmarks.targets import LOAD_CORE, Target, kohort, peers, pin, settle

RESULTS = Path(__file__).parent / "RESULTS.md"


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def each(table: Table, targets: Iterable[Target], measure: Callable[[Target], float], rounds: int) -> Table:
    """Measure every target in turn, a warm-up round first that does not count."""
    log(f"  {table.title}")
    targets = list(targets)
    for target in targets:
        measure(target)
    settle()
    alternate(table, {target.name: partial(measure, target) for target in targets}, rounds)
    return table


def request_tables(targets: list[Target], relaxed: Target, seconds: float, rounds: int) -> list[Table]:
    """Requests per second by the compiled generator; what is durable also without a sync."""
    tables = []
    for load in requests.LOADS:
        log(f"  {load.title}")
        measured = [targets[0], relaxed, *targets[1:]] if load.is_durable else targets
        tables += requests.tables(load, measured, seconds, rounds)
    return tables


def storm_tables(targets: list[Target], rounds: int, members: int) -> list[Table]:
    """Both protocols. kfake has the classic one only."""
    found = _storm_tables(
        "join one group at once, until all are in one generation", groups.storm, targets, rounds, members
    )
    modern = [target for target in targets if "kfake" not in target.name]
    title = "join a consumer group (KIP-848) at once, until each has its partition in one epoch"
    return found + _storm_tables(title, groups.consumer_storm, modern, rounds, members)


def _storm_tables(
    title: str, measure: Callable[[Target, int], float], targets: list[Target], rounds: int, members: int
) -> list[Table]:
    clock = Table(f"{members:,} members {title}", "ms", "", False)
    processor = Table("The same: processor time of the broker", "ms", "", False)

    def storm(target: Target) -> float:
        before = processor_seconds(target.pid)
        elapsed = measure(target, members)
        processor.add(target.name, 1_000 * (processor_seconds(target.pid) - before))
        return elapsed

    for target in targets:
        measure(target, members)  # one more to warm up: compilers take their time
    each(clock, targets, storm, rounds)
    for samples in processor.samples.values():
        del samples[0]  # of the warm-up
    return [clock, processor]


def data_tables(targets: list[Target], seconds: float, rounds: int) -> list[Table]:
    tables = [
        each(
            Table("Produce, batches of 1,000 records of 900 bytes, acks=all, 5 in flight", "MB/s"),
            targets,
            lambda t: throughput.produce_rate(t, records=1_000, size=900, depth=5, seconds=seconds),
            rounds,
        ),
        each(
            Table("Produce, batches of 100 records of 100 bytes, acks=all, 5 in flight", "MB/s"),
            targets,
            lambda t: throughput.produce_rate(t, records=100, size=100, depth=5, seconds=seconds),
            rounds,
        ),
        each(
            Table("Produce, one record of 100 bytes a request, 50 connections", "requests/s"),
            targets,
            lambda t: throughput.small_produces(t, 50, seconds),
            rounds,
        ),
        each(
            Table("Fetch, pieces of 1 MiB, 2 in flight", "MB/s"),
            targets,
            lambda t: throughput.fetch_rate(t, megabytes=64, seconds=seconds),
            rounds,
        ),
    ]
    produced = Table("confluent-kafka produces 100-byte messages", "thousand/s")
    consumed = Table("confluent-kafka consumes them", "thousand/s")
    log(f"  {produced.title}")
    for _ in range(rounds):
        for target in targets:
            one, other = throughput.librdkafka_round_trip(target, 200_000)
            produced.add(target.name, one)
            consumed.add(target.name, other)
    return [*tables, produced, consumed]


def own_tables(rounds: int, members: int, offsets: int) -> list[Table]:
    """What has no broker beside it, or none that could be asked."""
    log("  start-up, codec, capacity")
    process = Table("`kohort serve` until it listens", "ms", higher_is_better=False)
    alternate(
        process,
        {"Kohort": startup.process_listening, "python -c 'import asyncio'": startup.python_itself},
        rounds,
    )
    inside = Table("An embedded broker until it can be used, import left out", "ms", higher_is_better=False)
    alternate(
        inside, {"Kohort": startup.in_process, "librdkafka's mock cluster": startup.librdkafka_mock}, rounds
    )
    memory = Table(f"Memory for each of {members:,} members in 1,000 groups", "kB", higher_is_better=False)
    memory.add("Kohort", capacity.kilobytes_per_member(members, 1_000))
    return [process, inside, *codec.tables(rounds), memory, *load_tables(offsets), holds.table(rounds)]


def load_tables(offsets: int) -> list[Table]:
    clock = Table(f"Loading {offsets:,} live offsets of one partition", "s", higher_is_better=False)
    processor = Table("The same: processor time", "s", higher_is_better=False)
    for _ in range(3):
        elapsed, used = capacity.seconds_to_load(offsets)
        clock.add("Kohort", elapsed)
        processor.add("Kohort", used)
    return [clock, processor]


def report(tables: list[Table], missing: list[str], rounds: int) -> str:
    today = datetime.now(UTC).date()
    head = [
        "# Measured",
        "",
        f"Made by `make bench` on {today}: {os.cpu_count()} cores, {platform.machine()}, {platform.system()},"
        f" Python {platform.python_version()}. Each figure is the median of {rounds} rounds that alternate"
        " between the brokers; every broker process is pinned to one core, the load generator to the other.",
        "Trust the ratios of one table; the machine is shared and noisy.",
        "",
        *(f"Not measured: {reason}." for reason in missing),
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(table.as_markdown() for table in tables)


class Plan:
    """The parts of a run, one after another. What one of them found is written before the next begins.

    A part that fails, or that there is no time left for, is named in the report; the others are not lost.
    When half of the time is over, parts do with two rounds.
    """

    def __init__(self, output: Path, rounds: int, minutes: float) -> None:
        self.failed = False
        self.missing: list[str] = []
        self._output = output
        self._rounds = rounds
        self._started = time.monotonic()
        self._minutes = minutes
        self._tables: list[Table] = []

    def run(self, name: str, part: Callable[[int], list[Table]], takes_minutes: float = 1.0) -> None:
        """``part`` is given the number of rounds it may take."""
        spent = (time.monotonic() - self._started) / 60
        if spent + takes_minutes > self._minutes:
            self.missing.append(
                f"{name} (there was no time left: {spent:.0f} of {self._minutes:.0f} minutes)"
            )
        else:
            log(f"{name} (minute {spent:.0f})")
            try:
                self._tables += part(self._rounds if spent < self._minutes / 2 else min(self._rounds, 2))
            except Exception as error:
                self.failed = True
                traceback.print_exc()
                self.missing.append(f"{name} (it failed: {type(error).__name__}: {error})")
        self._output.write_text(report(self._tables, self.missing, self._rounds))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate measurement")
    parser.add_argument("--minutes", type=float, default=30.0, help="no part begins that would take longer")
    parser.add_argument("--only", default="", help="run the parts whose name has this text")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything runs")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    plan = Plan(options.output, 1 if options.quick else options.rounds, options.minutes)
    parts = _parts(plan, quick=options.quick, seconds=0.3 if options.quick else options.seconds)
    with ExitStack() as stack:
        others, missing = peers(stack)
        plan.missing += missing
        ours = stack.enter_context(kohort())
        relaxed = stack.enter_context(kohort("Kohort, --fsync-internal never", "--fsync-internal", "never"))
        pin(os.getpid(), LOAD_CORE)
        for name, minutes, part in parts:
            if options.only in name:
                plan.run(name, partial(part, [ours, *others], relaxed), 0 if options.quick else minutes)
    log(f"written: {options.output}")
    return 1 if plan.failed else 0


Part = Callable[[list[Target], Target, int], list[Table]]


def _parts(plan: Plan, *, quick: bool, seconds: float) -> list[tuple[str, float, Part]]:
    """What is measured, with the minutes that it takes at least: the comparisons of brokers first."""
    members, offsets = (2_000, 20_000) if quick else (100_000, 1_000_000)
    parts: list[tuple[str, float, Part]] = []
    if (reason := requests.missing()) is not None:
        plan.missing.append(reason)
    else:
        parts.append(("requests per second", 4, lambda t, relaxed, n: request_tables(t, relaxed, seconds, n)))
    kills, taken = (2, 500) if quick else (cluster.KILLS, cluster.GROUPS)
    joining, restarted = (50, 4) if quick else (1_000, rolling.MEMBERS)
    parts += [
        ("members that join", 3, lambda t, _, n: storm_tables(t, n, joining)),
        (
            "rolling restarts",
            3,
            lambda t, _, n: rolling.tables([t[0], *(o for o in t if o.is_kafka)], min(n, 2), restarted),
        ),
        ("produce and fetch", 3, lambda t, _, n: data_tables(t, seconds, n)),
        ("nodes on PostgreSQL", 4, lambda t, _, n: cluster.tables(t[0], seconds, n, kills, taken)),
        ("TLS and ACLs", 3, lambda _t, _r, n: doors.tables(n, seconds)),
        ("start, codec, capacity", 2, lambda _t, _r, n: own_tables(n, members, offsets)),
        (
            "client libraries",
            3,
            lambda t, _, n: clients.tables(t[0], n, records=20_000 if quick else clients.RECORDS),
        ),
    ]
    if (reason := spark.missing()) is not None:
        plan.missing.append(reason)
    else:
        parts.append(("Spark", 8, lambda t, _, n: spark.tables(t[0], n)))
    if lake.missing() is None:
        commits = lake.COMMITS // 50 if quick else lake.COMMITS
        parts.append(("the group lake", 8, lambda t, _, n: lake.tables(t[0], n, commits)))
    return parts


if __name__ == "__main__":
    sys.exit(main())
