"""The log of a partition as Kafka keeps it: segments in a directory, the last one growing.

Everything on disk besides the batches is derived from them. So an append writes the batch and nothing else;
indexes, snapshots and checkpoints follow when a segment is closed or the log is synced, and recovery rebuilds
whatever did not.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from kohort.log.background import describe, report
from kohort.log.cleaner import count_cleanable, is_worth_it
from kohort.log.files.checkpoints import write_epochs
from kohort.log.files.compaction import Round, Steps, compact, put_in_place
from kohort.log.files.disk import File
from kohort.log.files.faults import StorageFaults
from kohort.log.files.partition_files import make_directory, rewrite, snapshots, write_snapshot
from kohort.log.files.reading import View, read, readable_bytes
from kohort.log.files.recovery import Recovered, load_producers
from kohort.log.files.search import Elsewhere, Look, first_not_older, refusing, youngest
from kohort.log.files.segment import OpenFiles, Segment, SegmentFolder
from kohort.log.files.syncing import SyncJob, Unsynced
from kohort.log.log import (
    UNLIMITED,
    Append,
    Appended,
    EpochEnd,
    LogConfig,
    LogSpec,
    Slice,
    SyncPolicy,
    TimedOffset,
)
from kohort.log.producers import ProducerRoom
from kohort.log.retention import segments_to_drop
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, WallTime
from kohort.records.batch import BatchHeader, CorruptBatchError, patch_append_time, patch_offsets, read_header


class LogServices(NamedTuple):
    """What a log has of its storage."""

    look: Elsewhere  # takes a look in a thread
    checkpoint: Callable[[], Awaitable[None]]  # makes the starts of logs durable
    producers: ProducerRoom  # of all logs
    faults: StorageFaults  # what requests meet


class SegmentedLog:
    """One partition's log over a ``Disk``. Implements ``kohort.log.log.Log``."""

    def __init__(
        self, place: SegmentFolder, spec: LogSpec, policy: SyncPolicy, found: Recovered, means: LogServices
    ) -> None:
        self.partition = spec.partition
        self.topic_id = spec.topic_id
        self.config = spec.config
        self.policy = policy
        self.leader_epoch = max(spec.leader_epoch, found.epochs.latest)
        self.start_offset = found.start_offset
        self.end_offset = found.end_offset
        self.high_watermark = found.end_offset
        self.recovery_point = found.recovery_point  # everything before is synced
        self.cleaned_up_to = Offset(0)  # compaction has seen everything before
        self.failure: str | None = None
        self.layout = 0  # changes whenever closed segments do, so that a compaction notices
        self._means = means
        self._is_released = False
        self._is_recovering = False
        self._place = place
        self._segments = found.segments
        self._dropped: list[Segment] = []  # whose files are still to be removed
        self._active = found.segments[-1] if found.segments else None
        self._epochs = found.epochs
        self._epoch_is_new = found.epochs.begin(self.leader_epoch, self.end_offset)
        self.producers = found.producers
        self._closed = found.end_offset if found.closed else None  # files are complete up to here
        self._unsynced = Unsynced(epochs=bool(found.segments) and not found.closed)
        self._history = 0
        self._safe_end: tuple[Segment, int] | None = None  # where the high watermark is, if not at the end

    # -- offsets ---------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> Offset:
        return self.high_watermark  # there are no transactions yet

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        return self._epochs.at(offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        return self._epochs.end_of(epoch, self.end_offset)

    # -- appending -------------------------------------------------------------------------------------

    def append(self, append: Append) -> Appended:
        """Write one batch. Raises ``RefusedError``; the log is then as it was before."""
        _, batch, epoch, now, from_client = append
        if self.failure is not None:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure)
        if epoch != self.leader_epoch:
            self._meet(epoch)
        header = read_header(batch)
        if header.producer_id >= 0 and from_client:
            original = self.producers.check(header)
            if original is not None:
                base, last, time = original.base_offset, original.last_offset, original.timestamp
                return Appended(base, last, time, self.start_offset, True)
        size = len(batch)
        if size > self.config.segment_bytes:
            raise RefusedError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than a segment of {self.partition} has",
            )
        if type(batch) is not bytearray:
            batch = bytearray(batch)
        return self._store(batch, header, now)

    def _store(self, batch: bytearray, header: BatchHeader, now: WallTime) -> Appended:
        base = self.end_offset
        last = Offset(base + header.last_offset_delta)
        patch_offsets(batch, base, self.leader_epoch)
        timestamp, append_time = header.max_timestamp, -1
        if self.config.log_append_time:
            timestamp = append_time = now
            patch_append_time(batch, now)
        segment = self._active
        try:
            if segment is None or self._must_roll(segment, len(batch), last, timestamp, now):
                segment = self._roll(now)
            segment.append(batch, last, timestamp)
            segment.modified = now
        except Exception as error:
            raise self._write_failed(error) from error
        self.end_offset = Offset(last + 1)
        if header.producer_id >= 0:
            self.producers.update(header, base, timestamp)
        if self._epoch_is_new:
            self._epoch_is_new, self._unsynced.epochs = False, True
        if self.policy is not SyncPolicy.COMMIT:
            self.high_watermark = self.end_offset
        return Appended(base, last, append_time, self.start_offset, False)

    def _meet(self, epoch: LeaderEpoch) -> None:
        """An owner of another epoch appends: an older one has been replaced, a newer one takes over."""
        if epoch < self.leader_epoch:
            raise RefusedError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition} is at leader epoch {self.leader_epoch}; this append is from {epoch}",
            )
        self.leader_epoch = epoch
        self._epoch_is_new = self._epochs.begin(epoch, self.end_offset)

    def _must_roll(self, segment: Segment, size: int, last: Offset, timestamp: int, now: WallTime) -> bool:
        if segment.size == 0:
            return False
        config = self.config
        if segment.size > config.segment_bytes - size or not segment.has_room(last):
            return True
        return segment.open_for(timestamp, now) > config.longest_open_ms

    def _roll(self, now: WallTime) -> Segment:
        """Close the last segment and begin another. The new file comes last: a failure leaves no trace."""
        old = self._active
        made: list[File] = []
        if old is None:
            self._unsynced.directory = True
            made.append(make_directory(self._place, self.topic_id))
        else:
            snapshot = write_snapshot(self._place, self.end_offset, self.producers)
            made += [old.file(), *old.save_indexes(), snapshot]
        new = self._begin_segment(self.end_offset)
        if old is not None:
            old.seal()
        new.created = now
        self._active = new
        self._unsynced.files += made
        return new

    def _begin_segment(self, base_offset: Offset) -> Segment:
        place = self._place._replace(index_interval=self.config.index_interval_bytes)
        new = Segment(place, base_offset)
        new.create()
        self._segments.append(new)
        self._unsynced.names = True
        return new

    def _write_failed(self, error: Exception) -> RefusedError:
        """Cut off what a failed write may have left; the log goes on when there is space again.

        Anything but a failed write may have left what is in memory half changed: only files tell then.
        """
        reason = f"{self.partition} could not be written: {describe(error)}"
        try:
            if self._active is not None:
                self._active.file().truncate(self._active.size)
        except Exception as second:
            self.fail(f"{self.partition} could not be cut back after a failed write: {describe(second)}")
        if not isinstance(error, OSError):
            self.fail(reason)
        return self._means.faults.refused(reason)

    def fail(self, reason: str) -> None:
        """Refuse appends until the log is reopened: what is on the disk is not known any more."""
        self.failure = reason

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """While a thread recovers the files of this failed log, nothing else reads or changes them."""
        self.release()
        self._is_recovering = True
        try:
            yield
        finally:
            self._is_recovering = False

    def _refuse_while_recovering(self) -> None:
        if self._is_recovering:
            raise RefusedError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is being recovered after: {self.failure}"
            )

    # -- reading ---------------------------------------------------------------------------------------

    def _view(self) -> View:
        self._refuse_while_recovering()
        return View(self._segments, self.end_offset, self.high_watermark, self._safe_end)

    def read(self, offset: Offset, max_bytes: int, *, limit: Offset, at_least_one: bool) -> Slice:
        if not self.start_offset <= offset <= self.end_offset:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition} has {self.start_offset} to {self.end_offset}, not {offset}",
            )
        try:
            return read(self._view(), offset, max_bytes, limit, at_least_one)
        except (OSError, MemoryError) as error:
            raise self._unreadable(error) from error
        except CorruptBatchError as error:
            raise RefusedError(
                ErrorCode.CORRUPT_MESSAGE, f"{self.partition} is damaged at offset {offset}: {error}"
            ) from error

    def readable_bytes(self, offset: Offset, limit: Offset) -> int:
        try:
            return readable_bytes(self._view(), offset, limit)
        except (OSError, MemoryError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> RefusedError:
        return self._means.faults.refused(f"{self.partition} could not be read: {describe(error)}")

    def segments(self) -> Sequence[Segment]:
        return self._segments

    async def find_by_time(self, timestamp: int, limit: Offset) -> TimedOffset | None:
        self._refuse_while_recovering()
        search = first_not_older(self._segments, timestamp, self.start_offset, limit, self._elsewhere)
        return await refusing(search, self.partition)

    async def max_timestamp(self, limit: Offset) -> TimedOffset | None:
        self._refuse_while_recovering()
        search = youngest(self._segments, self.start_offset, limit, self._elsewhere)
        return await refusing(search, self.partition)

    async def _elsewhere(self, look: Look) -> TimedOffset | None:
        found = await self._means.look(look)
        if self._is_released:
            raise RefusedError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition} was deleted or opened again meanwhile"
            )
        return found

    # -- dropping --------------------------------------------------------------------------------------

    async def delete_before(self, offset: Offset) -> Offset:
        start = self.drop_before(offset)
        try:
            await self._means.checkpoint()
        except RefusedError as refusal:
            raise self._means.faults.refused(
                f"{self.partition} may have its old start again: {refusal}"
            ) from refusal
        return start

    def drop_before(self, offset: Offset) -> Offset:
        """``delete_before`` that survives a crash after the next checkpoint only."""
        self._refuse_while_recovering()
        if offset > self.high_watermark:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition} is safe up to {self.high_watermark} only"
            )
        self._move_start(offset)
        self._drop(sum(segment.base_offset <= self.start_offset for segment in self._segments[1:]))
        return self.start_offset

    def seem_too_old(self, now: WallTime) -> list[Segment]:
        """The segments that retention would drop for their age, of which only the time index knows it."""
        if self.failure is not None or self.config.retention_ms == UNLIMITED:
            return []
        ageless = replace(self.config, retention_ms=UNLIMITED)
        before, count = (
            segments_to_drop(self._segments, self.start_offset, self.high_watermark, config, now)
            for config in (ageless, self.config)
        )
        return [segment for segment in self._segments[before:count] if not segment.is_age_certain]

    def apply_retention(self, now: WallTime) -> int:
        """Drop the segments that are too old, too many, or below the start; how many went."""
        if self._active is None or self.failure is not None:
            return 0
        count = segments_to_drop(self._segments, self.start_offset, self.high_watermark, self.config, now)
        try:
            if count == len(self._segments):
                self._roll(now)
        except Exception as error:
            raise self._write_failed(error) from error
        if count:
            self._move_start(self._segments[count].base_offset)
        self._drop(count)
        return count

    def _move_start(self, offset: Offset) -> None:
        if offset > self.start_offset:
            self.start_offset = offset
            self._unsynced.epochs |= self._epochs.delete_before(offset)

    def _drop(self, count: int) -> None:
        """Let the first segments go; files that cannot be removed now go with the next ones."""
        for _ in range(count):
            self._dropped.append(self._segments.pop(0))
            self.layout += 1
            self._unsynced.names = True
        try:
            while self._dropped:
                self._dropped[0].remove()
                del self._dropped[0]
        except (OSError, MemoryError) as error:
            report(f"removing {self._dropped[0]}", error, "; it is tried again at the next retention check")

    def truncate(self, offset: Offset) -> None:
        """Forget everything from ``offset`` on: the batch that holds it goes as a whole.

        The log does not end before its start: where nothing remains, it begins again there. Survives a crash
        after ``LogStorage.flush``, and ``checkpoint`` if what was checkpointed is cut off.
        """
        if offset >= self.end_offset:
            return
        try:
            end = self._cut(offset)
            self.producers, _ = load_producers(self._place, self._segments, end, snapshots(self._place))
        except Exception as error:
            self.fail(f"{self.partition} could not be truncated to {offset}: {describe(error)}")
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure or "") from error
        self.end_offset = end
        self.high_watermark = min(self.high_watermark, end)
        self.recovery_point = min(self.recovery_point, end)
        self.cleaned_up_to = min(self.cleaned_up_to, end)
        self._epochs.truncate(end)
        self._epochs.begin(self.leader_epoch, end)
        self._unsynced.epochs = self._unsynced.names = True
        self._safe_end = None
        self._closed = None
        self._history += 1
        self.layout += 1

    def _cut(self, offset: Offset) -> Offset:
        """Remove the batches from ``offset`` on, newest first; returns where the log ends now."""
        keep = self._view().segment_at(offset) + 1
        while len(self._segments) > keep:
            self._segments.pop().remove()
        segment = self._active = self._segments[-1]
        position = segment.locate(offset)
        end = segment.truncate(segment.size if position is None else position)
        if end > self.start_offset:
            self._unsynced.files.append(segment.file())
            return end
        while self._segments:
            self._segments.pop().remove()
        self._active = self._begin_segment(self.start_offset)
        return self.start_offset

    # -- compacting ------------------------------------------------------------------------------------

    def is_cleanable(self, now: WallTime) -> bool:
        """Whether enough of the log is dirty for ``compact`` to be worth it."""
        first_dirty = max(self.cleaned_up_to, self.start_offset)
        due = is_worth_it(self._segments, first_dirty, self.high_watermark, self.config, now)
        return due and self.failure is None

    def compact(self, now: WallTime) -> Steps:
        """Compact the closed segments in small steps: give way at ``None``, run a ``Work`` off the loop.

        The log may be used between steps; if its closed segments change, compaction gives up and leaves the
        log as it is. A caller that stops early, or fails to run a ``Work``, closes the generator.
        ``LogStorage.compact`` does all this.
        """
        first_dirty = max(self.cleaned_up_to, self.start_offset)
        count = count_cleanable(self._segments, first_dirty, self.high_watermark, self.config, now)
        if count == 0 or self.failure is not None:
            return
        plan = Round(
            place=self._place,
            segments=self._segments[:count],
            end=self._segments[count].base_offset,
            cleaned_up_to=self.cleaned_up_to,
            active=self.producers.last_offsets(),
            config=self.config,
            now=now,
        )
        yield from compact(self, plan)

    def replace(self, old: Sequence[Segment], new: Segment) -> list[File]:
        """Put a compacted segment that is ready as ``.swap`` in the place of those it was made from."""
        first = self._segments.index(old[0])
        try:
            doomed = put_in_place(self._place, old, new)
        except Exception as error:
            self.fail(f"a compaction of {self.partition} could not be finished: {describe(error)}")
            raise
        self._segments[first : first + len(old)] = [new]
        self.layout += 1
        self._unsynced.names = True
        return doomed

    # -- syncing ---------------------------------------------------------------------------------------

    @property
    def needs_sync(self) -> bool:
        return self._active is not None and (self.recovery_point < self.end_offset or bool(self._unsynced))

    def begin_sync(self) -> SyncJob:
        """Everything that is written but not synced; goes to a thread and comes back to ``end_sync``."""
        active = self._active
        assert active is not None, "a log without files needs no sync"
        unsynced, self._unsynced = self._unsynced, Unsynced()
        if self.recovery_point < self.end_offset:
            unsynced.files.append(active.file())
        epochs = write_epochs(self._epochs.entries) if unsynced.epochs else b""
        place, end = self._place, (active, active.size)
        return SyncJob(place.disk, place.directory, unsynced, epochs, self.end_offset, end, self._history)

    def end_sync(self, job: SyncJob) -> bool:
        """Settle a sync; says whether the high watermark moved. A failed sync is never repeated."""
        if job.error is not None:
            self.fail(f"{self.partition} could not be synced: {describe(job.error)}")
            return False
        if job.epochs_error is not None:
            self._means.faults.warn(f"epochs of {self.partition} not written: {describe(job.epochs_error)}")
            self._unsynced.epochs = True
        if job.history != self._history:
            return False
        if job.epochs_error is None:
            self.recovery_point = max(self.recovery_point, job.end_offset)
        if self.policy is not SyncPolicy.COMMIT or job.end_offset <= self.high_watermark:
            return False
        self.high_watermark = job.end_offset
        self._safe_end = job.end
        return True

    def prepare_close(self) -> None:
        """Write what a clean shutdown leaves; a sync must follow. Raises ``OSError``."""
        if self._active is None or self._closed == self.end_offset or self.failure is not None:
            return
        snapshot = write_snapshot(self._place, self.end_offset, self.producers)
        self._unsynced.files += [*self._active.save_indexes(), snapshot]
        self._unsynced.names = True
        self._closed = self.end_offset

    def release(self) -> None:
        """Close all files."""
        self._is_released = True
        for segment in self._segments:
            segment.close()
        self.layout += 1

    def join(self, open_files: OpenFiles) -> None:
        """Be a log of the storage, whose files and producers count among all. Not in a thread."""
        self._place = self._place._replace(open_files=open_files)
        for segment in self._segments:
            segment.join(open_files)
        self.producers.share(self._means.producers)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    def expire_producers(self, now: WallTime, after_ms: int) -> None:
        """Forget the sequence numbers of producers that have been silent for ``after_ms``."""
        self.producers.expire(now, after_ms)

    def rewrite_from(self, offset: Offset) -> None:
        """Have everything from ``offset`` on synced again. Raises ``OSError``."""
        self._unsynced.files += rewrite(self._segments[self._view().segment_at(offset) :], offset)
