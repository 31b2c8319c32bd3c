"""Requests that can be read but make little sense, and bytes that were a request once."""

import struct
from random import Random
from typing import Any

from kohort.codec.schema import BOOL, BYTES, RECORDS, STRING, UUID, Array, Field, Message, Primitive, Struct
from kohort.primitives.crc import crc32c

CRC, CHECKED = 17, 21  # of a record batch: where the checksum is, and where what it covers begins

TEXTS = (
    "", "t", "g", "x", "nowhere", ".", "..", "a b", "ü", "😀", "\0", "\ud7ff", "a.b", "a_b", "x" * 249,
    "x" * 300, "x" * 32_767, "x" * 40_000, "delete," * 6_000, "__consumer_offsets", "__kohort_journal", "1",
    "-1", "range", "consumer", "retention.ms", "cleanup.policy", "compact", "9" * 30, "1e400", "nan", "true",
)  # fmt: skip
TOKENS = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff", b"\x7f\xff", b"\xff\xff", b"\x00\x00", b"\xed\xa0\x80", b"\xc0\x80", b"\xff",
    b"\x00" * 16, b"\x00", b"\x01",
)  # fmt: skip


def damaged(data: bytes, random: Random) -> bytes:
    """One to three changes anywhere: cut, flipped, inserted, removed, overwritten."""
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(data))
        match random.randrange(5):
            case 0:
                data = data[:at]
            case 1 if data:
                at %= len(data)
                data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            case 2:
                data = data[:at] + random.choice(TOKENS) + data[at:]
            case 3:
                data = data[:at] + data[at + random.randint(1, 4) :]
            case _:
                token = random.choice(TOKENS)
                data = data[:at] + token + data[at + len(token) :]
    return data


def resealed(blob: bytes, random: Random) -> bytes:
    """A record batch with changes its length and its checksum do not give away."""
    body = damaged(blob[CHECKED:], random)
    changed = bytearray(blob[:CHECKED] + body)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">I", changed, CRC, crc32c(bytes(body)))
    return bytes(changed)


def confuse(request: Message, version: int, random: Random, topic_id: bytes) -> None:
    """Give one to three fields, however deep, values of their type that nobody would send."""
    for _ in range(random.randint(1, 3)):
        found = places(request, version)
        if not found:
            return  # this version has no fields at all
        struct_, field = random.choice(found)
        setattr(struct_, field.name, _odd(field, getattr(struct_, field.name), version, random, topic_id))


def places(struct_: Struct, version: int) -> list[tuple[Struct, Field]]:
    """Every field that a version has, however deep, with the struct that it is in."""
    found: list[tuple[Struct, Field]] = []
    for field in struct_.fields:
        if not field.versions.includes(version):
            continue
        found.append((struct_, field))
        value = getattr(struct_, field.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Struct):
                found += places(item, version)
    return found


def _odd(field: Field, value: Any, version: int, random: Random, topic_id: bytes) -> object:  # noqa: ANN401 - any field
    of = field.type
    if field.nullable.includes(version) and random.random() < 0.2:
        return None
    if isinstance(of, Array):
        return _odd_list(of, value or [], random, topic_id)
    if not isinstance(of, Primitive):
        return value  # a struct: its own fields are places too
    return _odd_value(of, value, random, topic_id)


def _odd_list(of: Array, value: list[Any], random: Random, topic_id: bytes) -> list[Any]:
    match random.randrange(4):
        case 0:
            return []
        case 1:
            return value * 2
        case 2:
            return value * 60
    if isinstance(of.of, Primitive):
        return [_odd_value(of.of, 0, random, topic_id) for _ in range(random.randint(1, 4))]
    return [of.of(), *value, of.of()]


def _odd_value(of: Primitive, value: Any, random: Random, topic_id: bytes) -> object:  # noqa: ANN401 - any field
    if of is BOOL:
        return not value
    if of is STRING:
        return random.choice(TEXTS)
    if of is UUID:
        return random.choice((bytes(16), b"\xff" * 16, bytes(15) + b"\x01", topic_id, random.randbytes(16)))
    if of is RECORDS:
        return resealed(bytes(value), random) if value else random.randbytes(80)
    if of is BYTES:
        return random.choice((b"", b"\x00", random.randbytes(20), bytes(100_000)))
    bits = 8 * struct.calcsize(of.value)
    return random.choice((-1, 0, 1, 2, 7, -2, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
