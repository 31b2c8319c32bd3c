"""One segment: a file of record batches back to back, and the indexes that find them.

A segment trusts its file: one that was not closed properly is recovered first. Appends go to the last segment
of a log only. Reading never decodes a record.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kohort.log.files.disk import Disk, File, ShortWriteError, read_file, remove_if_there, write_all
from kohort.log.files.index import MOST_ENTRIES, CorruptIndexError, OffsetIndex, TimeIndex
from kohort.log.files.scan import Damage
from kohort.log.files.walk import batch_size, headers, may_begin, spans, whole_batches
from kohort.model.ids import Offset
from kohort.records.batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, CorruptBatchError, read_header

LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)

_MOST_HINTS = 64
_MOST_OFFSETS = (1 << 31) - 1
_BASE_OFFSET_SIZE = 8


def file_name(offset: int) -> str:
    """The base name of the files of a segment, or of a snapshot: the offset in twenty digits."""
    return f"{offset:020d}"


class OpenFiles:
    """Bounds how many segments keep their file open; one that was not used lately gives way."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._segments: OrderedDict[Segment, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, segment: "Segment") -> None:
        self._segments[segment] = None
        while len(self._segments) > self._most:
            oldest, _ = self._segments.popitem(last=False)
            # A second chance for what was used since it was last looked at: cheaper than a move at each use.
            if oldest.used:
                oldest.used = False
                self._segments[oldest] = None
            else:
                oldest.let_go()

    def discard(self, segment: "Segment") -> None:
        self._segments.pop(segment, None)


class SegmentFolder(NamedTuple):
    """Where the segments of a log are, and what they share."""

    disk: Disk
    directory: str
    open_files: OpenFiles
    index_interval: int  # bytes between two index entries


class Segment:
    """The batches from ``base_offset`` up to the next segment."""

    __slots__ = (
        "_file",
        "_first_timestamp",
        "_hints",
        "_index",
        "_place",
        "_sealed",
        "_since_entry",
        "_times",
        "_youngest",
        "base_offset",
        "created",
        "damages",
        "is_age_certain",
        "modified",
        "path",
        "size",
        "used",
    )

    def __init__(self, place: SegmentFolder, base_offset: Offset, size: int = 0, modified: int = 0) -> None:
        self.base_offset = base_offset
        self.path = f"{place.directory}/{file_name(base_offset)}"  # of its files, without their suffix
        self.size = size
        self.modified = modified  # of the last append; the age of a segment whose records have no timestamps
        self.created: int | None = None  # in this run; `None` until the clock was read for the first time
        self.damages: Sequence[Damage] = ()  # known ones; what is read ends before them
        self.is_age_certain = True  # not only the time index says how old the records are
        self.used = True
        self._place = place
        self._file: File | None = None
        self._index: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._sealed = True
        self._youngest: tuple[int, int] | None = None  # timestamp, last offset of its batch
        self._first_timestamp: int | None = None
        self._since_entry = 0
        self._hints: dict[int, int] = {}  # offsets that readers will ask for next, and where they are

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes)"

    # -- files -----------------------------------------------------------------------------------------

    def create(self, suffix: str = "") -> File:
        """Make the file of a new, empty segment; ``suffix`` if it is not to count as one yet."""
        file = self._place.disk.open(self.path + LOG + suffix, create=True)
        if file.size():
            file.truncate(0)
        self._file = file
        if not suffix:  # else it must not be closed before it has its name
            self._place.open_files.add(self)
        self.forget_indexes()
        return file

    def file(self) -> File:
        self.used = True
        file = self._file
        if file is None:
            file = self._file = self._place.disk.open(self.path + LOG)
            self._place.open_files.add(self)
        return file

    def let_go(self) -> None:
        """Close the file for now, and drop what can be read again."""
        self._file = None
        if self._sealed:
            self._index = self._times = None

    def join(self, open_files: OpenFiles) -> None:
        """Count among the open files of the storage, after a recovery in a thread that had its own."""
        self._place = self._place._replace(open_files=open_files)
        if self._file is not None:
            open_files.add(self)

    def close(self) -> None:
        self._place.open_files.discard(self)
        self._file = None

    def remove(self) -> None:
        """Close and remove all files. The log goes first: an index without one is swept up by recovery."""
        self.close()
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            remove_if_there(self._place.disk, self.path + suffix)

    # -- indexes ---------------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            try:
                self._index = OffsetIndex.decode(read_file(self._place.disk, self.path + INDEX), self.size)
            except CorruptIndexError:
                self._index = self._restore_indexes()[0]
        return self._index

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            try:
                self._times = TimeIndex.decode(read_file(self._place.disk, self.path + TIME_INDEX))
            except CorruptIndexError:
                self._times = self._restore_indexes()[1]
        return self._times

    def _restore_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """An index is missing or makes no sense: make both again from the batches."""
        sealed, size = self._sealed, self.size
        try:
            self.rebuild_indexes(size)
            self.save_indexes()
        except CorruptBatchError:
            self.size = size  # they end before the damage; the batches behind it are not gone
        self._sealed = sealed
        return self.index, self.times

    @property
    def youngest(self) -> tuple[int, int]:
        """The youngest timestamp and the last offset of the (first) batch that has it; -1 if none has one."""
        if self._youngest is None:
            timestamp, relative = self.times.last
            if timestamp == NO_TIMESTAMP and self.size:
                # The index of this segment was not closed, or its records have no timestamps: look.
                self._restore_indexes()
            else:
                self._youngest = (timestamp, self.base_offset + relative)
                self.is_age_certain = False
        return self._youngest or (NO_TIMESTAMP, self.base_offset)

    def learn_age(self, said: tuple[int, int], found: tuple[int, int]) -> None:
        """The time index said ``said`` for ``youngest``, the batches say ``found``.

        Reading them takes time: a batch that was appended meanwhile and is younger stays the youngest.
        """
        if self.youngest == said or self.youngest[0] < found[0]:
            self._youngest = found
        self.is_age_certain = True

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first batch, from which the age of a segment counts."""
        if self._first_timestamp is None:
            first = self.file().read(HEADER_SIZE, 0)
            self._first_timestamp = read_header(first).max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    def open_for(self, timestamp: int, now: int) -> int:
        """How long this segment takes appends already, by the time of its records if the first has one."""
        if self.created is None:
            self.created = now
        first = self.first_timestamp
        return timestamp - first if first >= 0 else now - self.created

    def has_room(self, last_offset: int) -> bool:
        """Whether an offset can be written relative to this segment, and the indexes take another entry."""
        return last_offset - self.base_offset <= _MOST_OFFSETS and self.index.count < MOST_ENTRIES

    def forget_indexes(self) -> None:
        """Begin again with nothing, to ``learn`` the batches that are there."""
        self._index, self._times = OffsetIndex(), TimeIndex()
        self._youngest = (NO_TIMESTAMP, self.base_offset)
        self._first_timestamp = None
        self._since_entry = self.size = 0
        self._sealed = False
        self._hints.clear()

    def rebuild_indexes(self, size: int) -> Offset:
        """Learn again what the first ``size`` bytes hold; returns the offset after that.

        A tail that is no whole batch is left out.
        """
        self.forget_indexes()
        next_offset = self.base_offset
        for _, header in headers(self.file(), 0, size):
            self.learn(header.size, header.last_offset, header.max_timestamp)
            next_offset = Offset(header.next_offset)
        return next_offset

    def learn(self, size: int, last_offset: int, timestamp: int) -> None:
        """A batch of ``size`` bytes stands at the end: count it, and index it where it is due."""
        if self.size == 0:
            self._first_timestamp = timestamp
        youngest = self._youngest or self.youngest
        if timestamp > youngest[0]:
            youngest = self._youngest = (timestamp, last_offset)
        if self._since_entry > self._place.index_interval:
            self.index.add(last_offset - self.base_offset, self.size)
            self.times.add(youngest[0], youngest[1] - self.base_offset)
            self._since_entry = 0
        self._since_entry += size
        self.size += size

    def resume(self) -> Offset:
        """Load what appending needs, after a clean shutdown; returns the offset after the last batch.

        Only the batches after the last index entry are looked at. Raises ``CorruptBatchError`` when the file
        does not end with a batch: a clean shutdown does not leave that.
        """
        position = self.index.last_position
        next_offset, end = self.base_offset, 0
        for _, following, last_offset in spans(self.file(), position, self.size):
            next_offset, end = Offset(last_offset + 1), following
        if end != self.size:
            raise CorruptBatchError(f"{self.path}{LOG} does not end with a batch")
        self._since_entry = self.size - position
        self._sealed = False
        return next_offset

    def looks_whole(self, upper: int | None) -> bool:
        """Whether file and saved indexes agree on where a closed segment begins and ends, before ``upper``.

        Reads the indexes, the first header and the batches after the last index entry: a file that is cut,
        is empty or has the name of another one is noticed, a wrong byte in the middle is not.
        """
        disk = self._place.disk
        try:
            index = OffsetIndex.decode(read_file(disk, self.path + INDEX), self.size)
            relative_youngest = TimeIndex.decode(read_file(disk, self.path + TIME_INDEX)).last[1]
            if self.size == 0:
                return index.count == 0 and relative_youngest == 0
            file = self.file()
            first = read_header(file.read(HEADER_SIZE, 0)).base_offset
            found = list(spans(file, index.last_position, self.size))
        except (CorruptIndexError, CorruptBatchError):
            return False
        if not found or found[-1][1] != self.size:
            return False
        last = found[-1][2]
        return (
            self.base_offset <= first <= last
            and (upper is None or last < upper)
            and self.base_offset + relative_youngest <= last
            and index.last_offset in (None, found[0][2] - self.base_offset)
        )

    def save_indexes(self, suffix: str = "") -> list[File]:
        """Write both indexes, closed with the youngest timestamp; returns the files, which want a sync."""
        youngest, its_offset = self.youngest
        self.times.add(youngest, its_offset - self.base_offset)
        saved = []
        for kind, content in ((INDEX, self.index.encode()), (TIME_INDEX, self.times.encode())):
            file = self._place.disk.open(self.path + kind + suffix, create=True)
            write_all(file, content, 0)
            file.truncate(len(content))
            saved.append(file)
        return saved

    def seal(self) -> None:
        """There will be no more appends, and the indexes are saved: they may be dropped from memory."""
        self._sealed = True

    def unseal(self) -> None:
        """This is the last segment again: keep the indexes in memory, where appends extend them."""
        self._index, self._times = self.index, self.times
        self._sealed = False

    # -- writing ---------------------------------------------------------------------------------------

    def append(self, batch: bytes | bytearray, last_offset: int, timestamp: int) -> None:
        """Write a batch at the end. Raises ``OSError``; what was written then is not part of the segment."""
        file = self._file or self.file()
        self.used = True
        size = len(batch)
        written = file.write(batch, self.size)
        if written != size:
            raise ShortWriteError(written, size)
        self.learn(size, last_offset, timestamp)

    def truncate(self, size: int) -> Offset:
        """Cut the file at the start of a batch and make it fit for appends; returns the offset they get."""
        self.file().truncate(size)
        return self.rebuild_indexes(size)

    # -- reading ---------------------------------------------------------------------------------------

    def floor(self, offset: int) -> int:
        """A position at or shortly before the batch that holds ``offset``; reads no log."""
        hint = self._hints.get(offset)
        return self.index.floor(offset - self.base_offset) if hint is None else hint

    def locate(self, offset: int) -> int | None:
        """The position of the first batch that ends at or after ``offset``; ``None`` if there is none."""
        hint = self._hints.get(offset)
        if hint is not None:
            return hint if hint < self.size else None
        try:
            return self._walk_to(offset)
        except CorruptBatchError:
            if self.index.count == 0:
                raise
            self._restore_indexes()  # a wrong entry looks like a damaged batch
            return self._walk_to(offset)

    def _walk_to(self, offset: int) -> int | None:
        expected, start = self.index.floor_entry(offset - self.base_offset)
        for position, _, last_offset in spans(self.file(), start, self.size):
            if expected is not None and last_offset - self.base_offset != expected:
                break
            expected = None
            if last_offset >= offset:
                return position
        if expected is not None:
            raise CorruptBatchError(f"{self.path}{INDEX} points to byte {start}, where no such batch is")
        return None

    def remember(self, offset: int, position: int) -> None:
        """``offset`` comes at ``position``: a reader that got everything before it will come back."""
        hints = self._hints
        if len(hints) >= _MOST_HINTS:
            del hints[next(iter(hints))]
        hints[offset] = position

    def read(self, start: int, end: int, max_bytes: int, at_least_one: bool) -> tuple[bytes, int | None]:
        """Whole batches from ``start`` on, up to ``end``, both starts of batches.

        Also the offset after them; ``None`` when they reach ``end``, where only the caller knows.
        """
        file = self.file()
        content = file.read(min(max_bytes, end - start), start)
        if start + len(content) == end:
            return content, None
        # The index knows a batch near the end of what was read: only the few after it must be looked at.
        known = max(self.index.floor_of_position(start + len(content) - _BASE_OFFSET_SIZE) - start, 0)
        whole, next_offset = whole_batches(content, known if may_begin(content, known) else 0)
        if whole:
            return content[:whole], next_offset
        if not at_least_one:
            return b"", None
        size = batch_size(file, start)
        content = file.read(size, start)
        return content, None if start + size == end else whole_batches(content, 0)[1]

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from ``position`` on."""
        return headers(self.file(), position, self.size)

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        return self.file().read(header.size, position)
