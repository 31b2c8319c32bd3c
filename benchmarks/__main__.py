"""``make bench``: measure everything, beside whatever peers can be had, and write RESULTS.md."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import capacity, clients, codec, groups, holds, requests, spark, startup, throughput
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


def storm_tables(targets: list[Target], rounds: int) -> list[Table]:
    clock = Table("1,000 members join one group at once, until all are in one generation", "ms", "", False)
    processor = Table("The same: processor time of the broker", "ms", "", False)

    def storm(target: Target) -> float:
        before = processor_seconds(target.pid)
        elapsed = groups.storm(target, 1_000)
        processor.add(target.name, 1_000 * (processor_seconds(target.pid) - before))
        return elapsed

    for target in targets:
        groups.storm(target, 1_000)  # one more to warm up: compilers take their time
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate measurement")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything runs")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rounds, seconds = (1, 0.3) if options.quick else (options.rounds, options.seconds)
    members, offsets = (2_000, 20_000) if options.quick else (100_000, 1_000_000)
    with ExitStack() as stack:
        others, missing = peers(stack)
        ours = stack.enter_context(kohort())
        relaxed = stack.enter_context(kohort("Kohort, --fsync-internal never", "--fsync-internal", "never"))
        pin(os.getpid(), LOAD_CORE)
        tables = []
        if (reason := requests.missing()) is not None:
            missing.append(reason)
        else:
            tables += request_tables([ours, *others], relaxed, seconds, rounds)
        tables += storm_tables([ours, *others], rounds)
        tables += data_tables([ours, *others], seconds, rounds)
        log("  client libraries")
        tables += clients.tables(ours, rounds, records=20_000 if options.quick else clients.RECORDS)
        if (reason := spark.missing()) is not None:
            missing.append(reason)
        else:
            log("  Spark, three minutes")
            tables += spark.tables(ours, rounds)
    tables += own_tables(rounds, members, offsets)
    options.output.write_text(report(tables, missing, rounds))
    log(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
