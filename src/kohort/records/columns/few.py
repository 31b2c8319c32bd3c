"""Columns of a few records, by the decoder that makes an object of each; it also names what is wrong."""

import numpy as np

from kohort.records.columns.spans import Bounds, Columns, HeaderSpans, Section
from kohort.records.header import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from kohort.records.record import Record, decode_records

_HEADER = BatchHeader(0, 0, -1, 2, 0, 0, 0, 0, 0, NO_PRODUCER_ID, -1, NO_SEQUENCE, 0)


def few_columns(section: Section) -> Columns:
    """The records of one section; raises ``CorruptBatchError`` as ``decode_records`` does."""
    records = _records(section)
    fields = [field or b"" for each in records for field in (each.key, each.value)]
    headers = [header for each in records for header in each.headers]
    parts = [
        part for name, value in headers for part in (name.encode("utf-8", "surrogateescape"), value or b"")
    ]
    data = b"".join((*fields, *parts, b"\0"))  # never empty: vectors may be read at place 0 in any case
    found = None
    if headers:
        found = HeaderSpans(
            np.array([len(each.headers) for each in records], np.int32),
            _bounds(parts, sum(map(len, fields)), len(data)),
            np.array([value is not None for _, value in headers], np.bool_),
        )
    return Columns(
        data,
        np.array([each.offset for each in records], np.int64),
        np.array([each.timestamp for each in records], np.int64),
        np.repeat(section.appended != 0, section.counts),
        _bounds(fields, 0, len(data)),
        np.array([each.key is not None for each in records], np.bool_),
        np.array([each.value is not None for each in records], np.bool_),
        found,
    )


def _records(section: Section) -> list[Record]:
    view = memoryview(section.data)
    records: list[Record] = []
    for start, end, *of_batch in zip(*(each.tolist() for each in section[1:]), strict=True):
        count, base_offset, base_timestamp, append_time, attributes = of_batch
        header = _HEADER._replace(
            base_offset=base_offset,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=append_time,
            records_count=count,
        )
        records += decode_records(bytes(view[start:end]), header)
    return records


def _bounds(parts: list[bytes], first: int, last: int) -> Bounds:
    """Where parts that stand one behind the other begin and end, from ``first`` on; and ``last``."""
    ends = np.cumsum([len(part) for part in parts], dtype=np.int32) + np.int32(first)
    bounds = np.empty(2 * len(parts) + 1, np.int32)
    bounds[1:-1:2] = ends
    bounds[2:-1:2] = ends[:-1]
    bounds[0] = first
    bounds[-1] = last
    return bounds
