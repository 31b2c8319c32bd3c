"""Where the records of ``kohort produce`` went, as far as it is known."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kohort.cli.commentary import Commentary
from kohort.cli.records.record_text import json_line
from kohort.cli.screen import say
from kohort.client.producer import RecordMetadata
from kohort.story.names import counted

Delivery = asyncio.Future[RecordMetadata]


class OffsetRun(NamedTuple):
    """Records of one partition: how many, and their first and last offset; -1 if no broker confirmed it."""

    records: int
    first: int
    last: int


class ProduceReceipts:
    """Takes the outcome of every record, in the order they were sent; keeps the first failure."""

    def __init__(self, topic: str, *, as_json: bool, commentary: Commentary) -> None:
        self._topic = topic
        self._as_json = as_json
        self._commentary = commentary
        self._waiting: deque[tuple[Delivery, int]] = deque()
        self._runs: dict[int, OffsetRun] = {}
        self._failure: BaseException | None = None

    def expect(self, delivered: Delivery, size: int) -> None:
        self._waiting.append((delivered, size))

    def settle(self, _done: Delivery | None = None) -> None:
        """Take note of those that are done, up to the first that is not."""
        settled = size = 0
        while self._waiting and self._waiting[0][0].done():
            delivered, bytes_sent = self._waiting.popleft()
            failure = asyncio.CancelledError() if delivered.cancelled() else delivered.exception()
            if failure is not None:
                self._failure = self._failure or failure
                continue
            self._take(delivered.result())
            settled += 1
            size += bytes_sent
        if settled:
            self._commentary.advance(settled, size)

    def check(self) -> None:
        """Raise the first failure."""
        if self._failure is not None:
            raise self._failure

    def show(self) -> None:
        """Print where those went that have not been shown yet; in JSON they have been, one by one."""
        for line in summaries(self._topic, self._runs):
            say(line)
        self._runs.clear()

    def _take(self, written: RecordMetadata) -> None:
        topic, partition, offset, timestamp = written
        if self._as_json:
            place = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp}
            try:
                say(json_line(place))
            except BrokenPipeError as closed:  # an error here would be lost: this runs as a callback
                self._failure = self._failure or closed
            return
        count, first, _ = self._runs.get(partition, OffsetRun(0, offset, offset))
        self._runs[partition] = OffsetRun(count + 1, first, offset)


def summaries(topic: str, runs: Mapping[int, OffsetRun]) -> list[str]:
    """One line for each partition: ``orders-0: offsets 3 to 9 (7 records)``."""
    lines = []
    for partition, (count, first, last) in sorted(runs.items()):
        where = f"offset {first}" if first == last else f"offsets {first} to {last}"
        if last < 0:
            where = "sent, and not confirmed"
        lines.append(f"{topic}-{partition}: {where} ({counted(count, 'record')})")
    return lines
