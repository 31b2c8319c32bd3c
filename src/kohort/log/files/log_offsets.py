"""Three offsets of each log that its files do not tell: in memory, and in the checkpoints of a node."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import partial

from kohort.log.background import describe, in_thread
from kohort.log.files.checkpoints import CLEANED_UP_TO, LOG_STARTS, RECOVERY_POINTS
from kohort.log.files.directory import DataDirectory
from kohort.log.files.segmented import SegmentedLog
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset
from kohort.model.topics import TopicPartition

_START = Offset(0)


class LogOffsets:
    """Where logs begin, up to where they are synced, and up to where they are compacted."""

    def __init__(
        self, directory: DataDirectory, executor: Executor, logs: Callable[[], Iterable[SegmentedLog]]
    ) -> None:
        read = directory.read_checkpoints((RECOVERY_POINTS, LOG_STARTS, CLEANED_UP_TO))
        self.repairs = read.repairs
        self.have_checksums = read.have_checksums
        self._directory = directory
        self._executor = executor
        self._logs = logs
        self._offsets = read.offsets
        self._writing = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None  # has not begun: another caller may share it

    def recovery_point(self, partition: TopicPartition) -> Offset:
        return self._offsets[RECOVERY_POINTS].get(partition, _START)

    def start(self, partition: TopicPartition) -> Offset:
        return self._offsets[LOG_STARTS].get(partition, _START)

    def cleaned_up_to(self, partition: TopicPartition) -> Offset:
        return self._offsets[CLEANED_UP_TO].get(partition, _START)

    def note(self, log: SegmentedLog) -> None:
        self._offsets[RECOVERY_POINTS][log.partition] = log.recovery_point
        self._offsets[LOG_STARTS][log.partition] = log.start_offset
        self._offsets[CLEANED_UP_TO][log.partition] = log.cleaned_up_to

    def forget(self, partition: TopicPartition) -> None:
        for offsets in self._offsets.values():
            offsets.pop(partition, None)

    async def checkpoint(self) -> None:
        """Raises ``RefusedError`` with KAFKA_STORAGE_ERROR when they cannot be written."""
        if self._next is None:
            task = asyncio.get_running_loop().create_task(self._checkpoint(), name="kohort checkpoint")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._next = task
        await asyncio.shield(self._next)

    async def _checkpoint(self) -> None:
        async with self._writing:  # a thread writes: the next one waits for it
            self._next = None
            for log in self._logs():
                self.note(log)
            offsets = {name: _given(noted) for name, noted in self._offsets.items()}
            try:
                await in_thread(self._executor, partial(self._directory.write_checkpoints, offsets))
            except (OSError, MemoryError) as error:
                raise RefusedError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"checkpoints could not be written: {describe(error)}"
                ) from error


def _given(offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
    return {partition: offset for partition, offset in offsets.items() if offset}
