"""One log, reached by the Protocols alone."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.unit.log.bench import EPOCH, PARTITION, TOPIC_ID, append_of

from kohort.log.log import Appended, Log, LogConfig, LogSpec, Slice, Storage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset
from kohort.model.topics import Topic
from kohort.records.batch import Record, batches, read_records


async def _nothing(*_arguments: object) -> None:
    """Files have nothing to do for it."""


class StoragePlace(NamedTuple):
    """Where a backend stores, and what its catalog does there: give an epoch, remove a deleted topic."""

    open_storage: Callable[[], Awaitable[Storage]]
    lead: Callable[[int], Awaitable[None]] = _nothing
    delete: Callable[[], Awaitable[None]] = _nothing


class Subject:
    """The log under test and its storage."""

    def __init__(self, place: StoragePlace) -> None:
        self._place = place
        self.storage: Storage
        self.log: Log

    async def start(self, epoch: int = EPOCH) -> None:
        self.storage = await self._place.open_storage()
        await self.open(epoch)

    async def open(self, epoch: int = EPOCH) -> None:
        await self._place.lead(epoch)
        spec = LogSpec(
            partition=PARTITION, topic_id=TOPIC_ID, leader_epoch=LeaderEpoch(epoch), config=LogConfig()
        )
        (log,) = await self.storage.open([spec])
        assert not isinstance(log, RefusedError), log
        self.log = log

    async def restart(self, epoch: int) -> None:
        """Close the storage and open the log in another, at the next epoch."""
        await self.storage.close()
        await self.start(epoch)

    async def destroy(self) -> None:
        """Delete the topic."""
        await self.storage.destroy(Topic(PARTITION.topic, TOPIC_ID, 1))
        await self._place.delete()

    async def append(self, *contents: bytes) -> list[Appended]:
        epoch = self.log.leader_epoch
        results = await self.storage.append([append_of(content, epoch=epoch) for content in contents])
        done = [result for result in results if isinstance(result, Appended)]
        assert len(done) == len(contents), results
        return done

    async def refused(self, content: bytes, epoch: int | None = None) -> ErrorCode:
        claimed = self.log.leader_epoch if epoch is None else epoch
        (result,) = await self.storage.append([append_of(content, epoch=claimed)])
        assert isinstance(result, RefusedError), result
        return result.code

    async def read(
        self,
        offset: int = 0,
        max_bytes: int = 1 << 20,
        *,
        limit: int | None = None,
        at_least_one: bool = True,
    ) -> Slice:
        """Up to ``limit``, or all that consumers may read."""
        end = self.log.high_watermark if limit is None else Offset(limit)
        found = self.log.read(Offset(offset), max_bytes, limit=end, at_least_one=at_least_one)
        return found if isinstance(found, Slice) else await found

    async def records(self, offset: int = 0) -> list[Record]:
        """What a consumer reads from ``offset`` on."""
        found: list[Record] = []
        while offset < self.log.high_watermark:
            piece = await self.read(offset)
            if not piece.size:
                break
            content = b"".join(piece.buffers)
            for position, header in batches(content):
                found += [each for each in read_records(content, position, header) if each.offset >= offset]
            offset = piece.next_offset
        return found

    async def values(self, offset: int = 0) -> list[bytes | None]:
        return [record.value for record in await self.records(offset)]
