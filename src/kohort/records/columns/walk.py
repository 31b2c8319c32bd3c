"""The decoder in plain Python: the one the others are compared with, and the one that needs no warming up."""

import numpy as np

from kohort.primitives.varint import VarintError, read_uvarint, read_varint, read_varlong
from kohort.records.columns.spans import HeaderSpans, Section, Spans
from kohort.records.errors import CorruptBatchError


def decode(section: Section) -> Spans:
    """Where the fields are; raises ``CorruptBatchError`` for what ``decode_records`` would refuse."""
    view = memoryview(section.data)
    found = _Found()
    batches = zip(section.starts.tolist(), section.ends.tolist(), section.counts.tolist(), strict=True)
    for start, end, count in batches:
        payload = bytes(view[start:end])
        found.payload_at(start)
        try:
            position = 0
            for _ in range(count):
                position = found.walk(payload, position)
        except (IndexError, VarintError) as error:
            raise CorruptBatchError("a record is cut off, or is no record") from error
        if position != len(payload):
            raise CorruptBatchError(f"{len(payload) - position} bytes are left after {count} records")
    return found.spans(len(view))


class _Found:
    """Fields so far."""

    def __init__(self) -> None:
        self.offset_deltas: list[int] = []
        self.timestamp_deltas: list[int] = []
        self.bounds: list[int] = []
        self.keys: list[bool] = []
        self.values: list[bool] = []
        self.header_counts: list[int] = []
        self.header_bounds: list[int] = []
        self.header_values: list[bool] = []
        self._base = 0

    def payload_at(self, start: int) -> None:
        """Positions from here on count from ``start``."""
        self._base = start

    def walk(self, data: bytes, position: int) -> int:
        """Read the record at ``position``; where it ends."""
        length, position = read_varint(data, position)
        end = position + length
        delta, position = read_varlong(data, position + 1)
        self.timestamp_deltas.append(delta)
        delta, position = read_varint(data, position)
        self.offset_deltas.append(delta)
        for present in (self.keys, self.values):
            size, position = read_varint(data, position)
            if size < -1:
                raise CorruptBatchError(f"the length before byte {position} is negative")
            present.append(size >= 0)
            self.bounds += (self._base + position, self._base + (position := position + max(size, 0)))
        position = self._walk_headers(data, position, end)
        if length < 0 or position != end:
            raise CorruptBatchError(f"the record before byte {position} should end at byte {end}")
        return position

    def _walk_headers(self, data: bytes, position: int, end: int) -> int:
        count, position = read_uvarint(data, position)
        if count & 1 or count > end - position:
            raise CorruptBatchError(f"{end - position} bytes cannot hold the declared headers")
        count >>= 1
        self.header_counts.append(count)
        for _ in range(count):
            size, position = read_varint(data, position)
            if size < 0:
                raise CorruptBatchError(f"the header before byte {position} has no key")
            self.header_bounds += (self._base + position, self._base + (position := position + size))
            size, position = read_varint(data, position)
            if size < -1:
                raise CorruptBatchError(f"the length before byte {position} is negative")
            self.header_values.append(size >= 0)
            self.header_bounds += (self._base + position, self._base + (position := position + max(size, 0)))
        return position

    def spans(self, size: int) -> Spans:
        headers = None
        if self.header_bounds:
            headers = HeaderSpans(
                np.array(self.header_counts, np.int32),
                np.array([*self.header_bounds, size], np.int32),
                np.array(self.header_values, np.bool_),
            )
        return Spans(
            np.array(self.offset_deltas, np.int64),
            np.array(self.timestamp_deltas, np.int64),
            np.array([*self.bounds, size], np.int32),
            np.array(self.keys, np.bool_),
            np.array(self.values, np.bool_),
            headers,
        )
