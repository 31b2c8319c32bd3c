"""Readers of groups as plain objects, driven the way Spark drives them."""

import asyncio
import json
import pickle
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from pyspark.sql.types import StructType
from tests.clients.waiting import Deadline

from kohort.client.admin import AsyncAdmin
from kohort.client.producer import Producer
from kohort.model.topics import TopicPartition
from kohort.spark.group.offsets import GroupOffsetJson
from kohort.spark.group.reader import GroupStreamReader
from kohort.spark.offsets import OffsetRange, Offsets, topic_partition
from kohort.spark.options import parse_source_options
from kohort.spark.progress import ABOUT
from kohort.spark.tasks import RangePartition
from kohort.testing.plugin import Kohort

T = TypeVar("T")
QUICK = {
    "kafka.heartbeat.interval.ms": "100",
    "kafka.retry.backoff.ms": "20",
    "kafka.default.api.timeout.ms": "30000",
}


def group_reader(bootstrap: str, topic: str, group: str, **more: str) -> GroupStreamReader:
    """Options by their names, with ``__`` for a dot."""
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.group.id": group,
        "startingOffsets": "earliest",
        **QUICK,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    options = parse_source_options({name: value for name, value in given.items() if value}, streaming=True)
    reader: GroupStreamReader = pickle.loads(pickle.dumps(GroupStreamReader(options, StructType([]))))
    return reader


class Driven:
    """A query as Spark runs it: one reader, the end of the last batch, and what was read."""

    def __init__(self, reader: GroupStreamReader, end: GroupOffsetJson | None = None) -> None:
        self.reader = reader
        self.end: GroupOffsetJson = reader.initialOffset() if end is None else end
        self.read: list[OffsetRange] = []

    def trigger(self) -> int:
        """One turn; how many offsets were read."""
        start = self.end
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if end == start:
            return 0
        self.reader.reportLatestOffset()
        if start:
            self.reader.commit(start)
        shares = self.reader.partitions(start, end)
        ranges = [range_ for one in shares if isinstance(one, RangePartition) for range_ in one.ranges]
        self.read += ranges
        self.end = end
        return sum(one.size for one in ranges)

    def trigger_until(self, partitions: int) -> None:
        """Until the group has given it so many partitions."""
        for _ in range(200):
            self.trigger()
            if len(self.holds) == partitions:
                return
        raise AssertionError(f"has {self.holds}")

    @property
    def holds(self) -> Offsets:
        """The log ends of what it holds."""
        reported = self.reader.reportLatestOffset() or {}
        logs = {topic: ends for topic, ends in reported.items() if topic != ABOUT}
        return {topic_partition(topic, int(number)): end for topic, ends in logs.items() for number, end in
                ends.items()}  # fmt: skip

    @property
    def offsets(self) -> list[tuple[TopicPartition, int]]:
        return [(one.where, offset) for one in self.read for offset in range(one.start, one.end)]

    def stop(self) -> None:
        self.reader.stop()


class Stage:
    """A topic of its own, a group of its own, on a shared broker."""

    def __init__(self, kohort: Kohort, *, partitions: int = 3) -> None:
        self.kohort = kohort
        self.topic = kohort.topic(partitions=partitions)
        self.group = kohort.group()
        self.places = [topic_partition(self.topic, number) for number in range(partitions)]

    def write(self, each: int, *, partitions: Collection[int] | None = None) -> None:
        numbers = [one.partition for one in self.places] if partitions is None else partitions
        with Producer(bootstrap_servers=self.kohort.bootstrap) as producer:
            for number in numbers:
                for value in range(each):
                    producer.send(self.topic, str(value).encode(), partition=number)
            producer.flush()

    def query(self, end: GroupOffsetJson | None = None, **more: str) -> Driven:
        return Driven(group_reader(self.kohort.bootstrap, self.topic, self.group, **more), end)

    def ask(self, question: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        """Of an administrator."""

        async def work() -> T:
            async with AsyncAdmin(self.kohort.bootstrap) as admin:
                return await question(admin)

        return asyncio.run(work())

    def committed(self) -> Offsets:
        found = self.ask(lambda admin: admin.list_group_offsets(self.group, self.places))
        return {where: int(one.offset) for where, one in found.items() if one.offset >= 0}

    def catch_up(self, *queries: Driven, each: int) -> None:
        """Until so many records of every partition are read and committed."""
        run(*queries, until=lambda: self.committed() == self.everywhere(each))

    def everywhere(self, offset: int) -> Offsets:
        return dict.fromkeys(self.places, offset)


def sorted_offsets(*queries: Driven) -> list[tuple[TopicPartition, int]]:
    return sorted(one for query in queries for one in query.offsets)


def all_offsets(ends: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, int]]:
    return [(where, offset) for where in sorted(ends) for offset in range(ends[where])]


def run(*queries: Driven, until: Callable[[], bool], seconds: float = 60) -> None:
    """Trigger all of them at the same time, as separate drivers do, until something holds."""
    over = threading.Event()

    def drive(query: Driven) -> None:
        while not over.is_set():
            query.trigger()

    with ThreadPoolExecutor(len(queries)) as executor:
        driving = [executor.submit(drive, query) for query in queries]
        try:
            deadline = Deadline("the queries", seconds)
            while not until():
                deadline.check([query.holds for query in queries])
                if wait(driving, 0.01, FIRST_EXCEPTION).done:
                    break
        finally:
            over.set()
    for each in driving:
        each.result()


def share(*queries: Driven, partitions: int) -> None:
    """Until they have the partitions between them, each some."""

    def shared() -> bool:
        held = [where for query in queries for where in query.holds]
        return all(query.holds for query in queries) and len(held) == len(set(held)) == partitions

    run(*queries, until=shared)


def checkpointed(root: Path, query: Driven, *, offsets: int, commits: int) -> None:
    """Write what Spark writes, up to these batches."""
    for log, newest in (("offsets", offsets), ("commits", commits)):
        (root / log).mkdir(exist_ok=True)
        for number in range(newest + 1):
            (root / log / str(number)).write_text("v1\n{}\n" + json.dumps(query.end))
