"""A topic that is archived, for tests of the archive."""

import asyncio
from pathlib import Path

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import NewTopic
from kohort.client.producer import Producer
from kohort.spark.pipelines.archive import ArchiveOptions
from kohort.spark.pipelines.parquet import read_columns
from kohort.testing.plugin import Kohort


class Stage:
    """A topic with as many records as were sent, and the directory it is archived to."""

    def __init__(self, kohort: Kohort, root: Path) -> None:
        self.kohort = kohort
        self.root = root
        self.topic = kohort.topic(partitions=4)
        self.group = kohort.group()
        self.sent = 0

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self.kohort.bootstrap) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d" % (self.sent + number), partition=number % 4)
        self.sent += count

    def make_topic_again(self) -> None:
        async def work() -> None:
            async with AsyncAdmin(self.kohort.bootstrap) as admin:
                await admin.delete_topics([self.topic])
                await admin.create_topic(NewTopic(name=self.topic, partitions=4))

        asyncio.run(work())
        self.sent = 0

    def options(self, *, once: bool = True, instance: str | None = None) -> ArchiveOptions:
        return ArchiveOptions(
            bootstrap=self.kohort.bootstrap,
            topics=self.topic,
            to=self.root,
            group=self.group,
            once=once,
            trigger_seconds=0.5,
            instance=instance,
        )

    def offsets(self) -> list[tuple[int, int]]:
        """What a reader of the table finds, sorted."""
        found: list[tuple[int, int]] = []
        for path in (self.root / self.topic).glob("date=*/*.parquet"):
            columns = read_columns(path, ("partition", "offset"))
            found += zip(columns.column(0).to_pylist(), columns.column(1).to_pylist(), strict=True)
        return sorted(found)

    def is_complete(self) -> bool:
        return self.offsets() == self.expected()

    def is_writing(self) -> bool:
        return any((self.root / "_kohort" / "_staging").rglob("*"))

    def expected(self) -> list[tuple[int, int]]:
        return [
            (partition, offset)
            for partition in range(4)
            for offset in range(len(range(partition, self.sent, 4)))
        ]
