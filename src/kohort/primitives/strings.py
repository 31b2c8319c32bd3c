"""Text as Java sees it: UTF-16 code units, and the hash that places a group; text that is safe to show."""

import re
from functools import lru_cache

# Control characters without the tab, separators of lines, and what turns the direction of writing.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """A name from outside as a log or a terminal may show it: it begins no line and moves no cursor."""
    return text if text.isprintable() else _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: 32 bits, signed, over UTF-16 units (a character may count as two)."""
    value = 0
    for unit in _units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


@lru_cache(maxsize=100_000)  # asked with every heartbeat, of the same few groups
def partition_for(group_id: str, count: int) -> int:
    """The partition of ``__consumer_offsets``, of ``count``, that a group lives in."""
    return group_hash(group_id) % count


def group_hash(group_id: str) -> int:
    """What the number of partitions divides; the rest is the partition of the group."""
    value = java_hash(group_id)
    # Java's abs(-2**31) is negative; Kafka takes 0 for it.
    return 0 if value == -0x80000000 else abs(value)


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, which is how Kafka's limits on strings count."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)


def _units(text: str) -> bytes | memoryview:
    if text.isascii():
        return text.encode()
    # "surrogatepass": a lone surrogate cannot come off the wire, but hashing must not fail on one.
    return memoryview(text.encode(_NATIVE_UTF16, "surrogatepass")).cast("H")


_NATIVE_UTF16 = "utf-16-le" if memoryview(b"\x01\x00").cast("H")[0] == 1 else "utf-16-be"
