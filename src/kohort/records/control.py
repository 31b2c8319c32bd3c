"""Control batches: the markers that end a transaction."""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kohort.records.build import BatchFields, build_batch
from kohort.records.errors import CorruptBatchError
from kohort.records.record import NewRecord, Record

_KEY = Struct(">hh")
_END_VALUE = Struct(">hi")


class ControlType(IntEnum):
    """What a control record says. Kohort acts on the first two; others are skipped."""

    ABORT = 0
    COMMIT = 1


class EndMarker(NamedTuple):
    """The end of a transaction, as its coordinator wrote it into every partition it touched."""

    kind: ControlType
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType | None:
    """The type in the key of a control record; None for one to be ignored.

    A larger key version is read as version 0. Raises ``CorruptBatchError`` for a key of less than 4 bytes.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError("a control record has no key of 4 bytes")
    kind = _KEY.unpack_from(key)[1]
    return ControlType(kind) if kind in (ControlType.ABORT, ControlType.COMMIT) else None


def read_end_marker(record: Record) -> EndMarker | None:
    """The marker in the record of a control batch; None if it is a control record of another kind."""
    kind = control_type(record.key)
    if kind is None:
        return None
    if record.value is None or len(record.value) < _END_VALUE.size:
        raise CorruptBatchError(f"the {kind.name} marker at offset {record.offset} has no value of 6 bytes")
    return EndMarker(kind, _END_VALUE.unpack_from(record.value)[1])


def build_end_marker(marker: EndMarker, timestamp: int, fields: BatchFields) -> bytes:
    """The control batch of one marker; of ``fields``, offset, leader epoch and producer count."""
    record = NewRecord(timestamp, _KEY.pack(0, marker.kind), _END_VALUE.pack(0, marker.coordinator_epoch))
    return build_batch([record], fields._replace(transactional=True, control=True))
