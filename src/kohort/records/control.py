"""Control batches: the markers that end a transaction."""

from enum import IntEnum
from struct import Struct

from kohort.records.errors import CorruptBatchError

_KEY = Struct(">hh")


class ControlType(IntEnum):
    """What a control record says. Kohort acts on the first two; others are skipped."""

    ABORT = 0
    COMMIT = 1


def control_type(key: bytes | None) -> ControlType | None:
    """The type in the key of a control record; None for one to be ignored.

    A larger key version is read as version 0. Raises ``CorruptBatchError`` for a key of less than 4 bytes.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError("a control record has no key of 4 bytes")
    kind = _KEY.unpack_from(key)[1]
    return ControlType(kind) if kind in (ControlType.ABORT, ControlType.COMMIT) else None
