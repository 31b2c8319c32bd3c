"""The two sparse indexes of a segment: from offset to position, and from time to offset.

Both are kept in memory while their segment is in use and written when it is closed, at their exact length. A
segment that was not closed has its indexes rebuilt by recovery, so there is nothing to keep in step on disk.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct

MOST_ENTRIES = 10_485_760 // 12 - 1
"""Kafka gives an index 10 MiB; the time index, with 12 bytes an entry, is full first."""

_OFFSET_ENTRY_SIZE = 8
_TIME_ENTRY = Struct(">qi")
_LITTLE_ENDIAN = sys.byteorder == "little"


class CorruptIndexError(ValueError):
    """An index that cannot be right; it is rebuilt from the segment."""


class OffsetIndex:
    """Every few kilobytes: the last offset of a batch, relative to the segment, and where it starts."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    @property
    def count(self) -> int:
        return len(self._offsets)

    @property
    def last_position(self) -> int:
        """Where the batch of the last entry starts; 0 when there is none."""
        return self._positions[-1] if self._positions else 0

    @property
    def last_offset(self) -> int | None:
        """The relative last offset of the batch of the last entry; ``None`` when there is none."""
        return self._offsets[-1] if self._offsets else None

    def add(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def entries(self) -> Iterator[tuple[int, int]]:
        """Relative offset and position of each entry."""
        return zip(self._offsets, self._positions, strict=True)

    def floor(self, relative_offset: int) -> int:
        """A position at or before the batch that holds the offset, and not far from it."""
        found = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[found] if found >= 0 else 0

    def floor_entry(self, relative_offset: int) -> tuple[int | None, int]:
        """As ``floor``, with the last offset of the batch that should be there; ``None`` at the beginning."""
        found = bisect_right(self._offsets, relative_offset) - 1
        return (self._offsets[found], self._positions[found]) if found >= 0 else (None, 0)

    def floor_of_position(self, position: int) -> int:
        """The last position known to start a batch that is not beyond ``position``."""
        found = bisect_right(self._positions, position) - 1
        return self._positions[found] if found >= 0 else 0

    def encode(self) -> bytes:
        """The content of an ``.index`` file."""
        entries = array("i", bytes(_OFFSET_ENTRY_SIZE * len(self._offsets)))
        entries[0::2] = self._offsets
        entries[1::2] = self._positions
        if _LITTLE_ENDIAN:
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def decode(cls, content: bytes | None, segment_size: int) -> "OffsetIndex":
        """Raises ``CorruptIndexError``. Zeros at the end (Kafka preallocates, and may crash) are padding."""
        if content is None:
            raise CorruptIndexError("there is no offset index")
        used = -(-len(content.rstrip(b"\0")) // _OFFSET_ENTRY_SIZE) * _OFFSET_ENTRY_SIZE
        if len(content) % _OFFSET_ENTRY_SIZE:
            raise CorruptIndexError(f"an offset index has {len(content)} bytes")
        entries = array("i", content[:used])
        if _LITTLE_ENDIAN:
            entries.byteswap()
        index = cls()
        index._offsets, index._positions = entries[0::2], entries[1::2]
        if entries and not (index._ends_increasing() and 0 < index._positions[-1] < segment_size):
            raise CorruptIndexError("the last entries of an offset index make no sense")
        return index

    def _ends_increasing(self) -> bool:
        # The whole is not looked at: opening a large segment should not cost a walk over its index.
        return all(
            list(values[-2:]) == sorted(set(values[-2:])) and values[0] >= 0
            for values in (self._offsets, self._positions)
        )


class TimeIndex:
    """Now and then, the youngest timestamp so far and the last offset of the batch that has it."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps: list[int] = []
        self._offsets: list[int] = []

    @property
    def last(self) -> tuple[int, int]:
        """Timestamp and relative offset of the last entry; -1 and 0 when there is none."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else (-1, 0)

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, if it is younger than the last one."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def entries(self) -> Iterator[tuple[int, int]]:
        """Timestamp and relative offset of each entry."""
        return zip(self._timestamps, self._offsets, strict=True)

    def floor(self, timestamp: int) -> int:
        """A relative offset; every record at or before it is older than ``timestamp``. -1 when none is."""
        found = bisect_left(self._timestamps, timestamp) - 1
        return self._offsets[found] if found >= 0 else -1

    def encode(self) -> bytes:
        """The content of a ``.timeindex`` file."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets))

    @classmethod
    def decode(cls, content: bytes | None) -> "TimeIndex":
        """Raises ``CorruptIndexError``; entries end where timestamps stop to increase (padding)."""
        if content is None:
            raise CorruptIndexError("there is no time index")
        if len(content) % _TIME_ENTRY.size:
            raise CorruptIndexError(f"a time index has {len(content)} bytes")
        index = cls()
        for timestamp, relative_offset in _TIME_ENTRY.iter_unpack(content):
            if timestamp <= index.last[0]:
                break
            index.add(timestamp, relative_offset)
        return index
