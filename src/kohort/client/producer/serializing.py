"""What a caller hands in, as the bytes of a record."""

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.producer.settings import Serializer
from kohort.model.errors import KohortError
from kohort.records.batch import Header

Headers = Mapping[str, bytes | None] | Sequence[Header]

_RECORD_OVERHEAD = 21  # lengths, deltas and attributes at their largest, nearly
_HEADER_OVERHEAD = 10
_LAST_TIMESTAMP = 2**63 - 65  # a batch keeps some room for deltas


def in_bytes(what: str, given: Any, serializer: Serializer | None) -> bytes | None:  # noqa: ANN401 (any user's type)
    """A key or a value ("key" or "value" says which); raises TypeError if it is no bytes in the end."""
    made = given if serializer is None else serializer(given)
    if made is None or type(made) is bytes:
        return made
    if isinstance(made, bytes | bytearray | memoryview):
        return bytes(made)
    if serializer is None:
        raise TypeError(f"a {what} must be bytes or None, not {type(given).__name__}; see {what}_serializer")
    raise TypeError(f"{what}_serializer returned {type(made).__name__}, not bytes or None")


def check_place(topic: str, partition: int | None) -> None:
    """TypeError for what cannot be a topic's name or a partition's number."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic's name is text, not {topic!r}")
    if partition is not None and not isinstance(partition, int):
        raise TypeError(f"a partition's number is a whole number, not {partition!r}")


def header_list(headers: Headers) -> Sequence[Header]:
    """Headers as pairs; raises KohortError for what is no header."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    for pair in pairs:
        match pair:
            case (str(name), bytes() | None) if _is_encodable(name):
                continue
            case _:
                raise KohortError(f"{pair!r} is no header", hint="a name in text with bytes or None")
    return pairs


def _is_encodable(name: str) -> bool:
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def check_timestamp(given: int) -> int:
    """Milliseconds since 1970, as a record can have them; raises KohortError for anything else."""
    if not isinstance(given, int) or not 0 <= given <= _LAST_TIMESTAMP:
        raise KohortError(f"{given!r} is no timestamp", hint="timestamp_ms is in milliseconds since 1970")
    return given


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """How many bytes a record takes in a batch, at most."""
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD + 3 * len(name) + len(content or b"")
    return size
