"""Variable-length integers: LEB128, plain (``uvarint``) and zig-zag (``varint``, ``varlong``).

A reader takes a buffer and a position and returns the value and the position behind it. A writer appends
to a ``bytearray``. Headers and compact fields use ``uvarint``; the records of a batch use the other two.
"""

from kohort.model.errors import KohortError, ProtocolError
from kohort.primitives.buffers import Buffer

_INT32_BYTES = 5
_INT64_BYTES = 10


class VarintError(ProtocolError):
    """Bytes that are not a variable-length integer: cut off, too long, or too large for their kind."""


class VarintRangeError(KohortError, ValueError):
    """A number that does not fit the kind of integer it was to be written as."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned integer of at most 32 bits, in at most 5 bytes."""
    try:
        # Nearly all have one or two bytes; a loop would cost them twice the time.
        first = buffer[position]
        if first < 0x80:
            return first, position + 1
        second = buffer[position + 1]
    except IndexError:
        raise _cut_off(position) from None
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value, position = _read_groups(buffer, position, _INT32_BYTES)
    if value > 0xFFFFFFFF:
        raise VarintError(f"uvarint before byte {position} has more than 32 bits")
    return value, position


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 32-bit integer, zig-zag, in at most 5 bytes."""
    value, position = read_uvarint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 64-bit integer, zig-zag, in at most 10 bytes."""
    try:
        first = buffer[position]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), position + 1
        second = buffer[position + 1]
    except IndexError:
        raise _cut_off(position) from None
    if second < 0x80:
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), position + 2
    value, position = _read_groups(buffer, position, _INT64_BYTES)
    if value > 0xFFFFFFFFFFFFFFFF:
        raise VarintError(f"varlong before byte {position} has more than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def _read_groups(buffer: Buffer, position: int, at_most: int) -> tuple[int, int]:
    value = shift = 0
    for byte in buffer[position : position + at_most]:
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift == 7 * at_most:
        raise VarintError(f"variable-length integer before byte {position} takes more than {at_most} bytes")
    raise _cut_off(position)


def _cut_off(position: int) -> VarintError:
    return VarintError(f"variable-length integer is cut off at byte {position}")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned integer of at most 32 bits."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise VarintRangeError(f"{value} is not an unsigned 32-bit integer")
    _write_groups(out, value)


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed 32-bit integer, zig-zag."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise VarintRangeError(f"{value} is not a signed 32-bit integer")
    _write_groups(out, value << 1 if value >= 0 else ~(value << 1))


def write_varlong(out: bytearray, value: int) -> None:
    """Append a signed 64-bit integer, zig-zag."""
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise VarintRangeError(f"{value} is not a signed 64-bit integer")
    _write_groups(out, value << 1 if value >= 0 else ~(value << 1))


def _write_groups(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
