"""Every field of every request at its extremes: a protocol answer or a closed connection, never a bug.

What is sent is made of the schemas: one field at a time in a sensible request, and two at a time where there
are few. A new API or version is in it as soon as it is served.
"""

import itertools
import struct
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.broker.exemplars import exemplar, versions
from tests.fault.arena import Arena, ClosedError, is_unknown
from tests.fault.largest import ROWS
from tests.fault.weird import places
from tests.rounds import ROUNDS

from kohort.codec.compiled import EncodeError, decode, encode
from kohort.codec.schema import BOOL, BYTES, RECORDS, STRING, UUID, Array, Field, Message, Primitive
from kohort.wire.apis import APIS, ApiKey

pytestmark = pytest.mark.slow

LONGEST = "x" * 32_767
MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
OF_A_MEMBER = (
    ApiKey.HEARTBEAT,
    ApiKey.JOIN_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.SYNC_GROUP,
)
MOST_PAIRS = 200 * ROUNDS  # of a version
KEYS = list(dict.fromkeys(key for key, _ in versions()))
Change = tuple[int, object]  # the place of a field in its request, and its new value


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena() as arena:
        yield arena


def extremes(of: Primitive, topic_id: bytes) -> list[object]:
    if of is BOOL:
        return [False, True]
    if of is STRING:
        return ["", "x", "t", "-1", "1_0", "ü" * 16_383, "\0", "9" * 32_767, LONGEST]
    if of is UUID:
        return [bytes(16), b"\xff" * 16, topic_id]
    if of is RECORDS:
        return [b"", b"\0", bytes(61), b"\xff" * 61]
    if of is BYTES:
        return [b"", b"\0", bytes(100_000)]
    most = 2 ** (8 * struct.calcsize(of.value) - 1) - 1
    return [-most - 1, -1, 0, 1, most]


def boundaries(field: Field, value: Any, version: int, topic_id: bytes) -> list[object]:  # noqa: ANN401 - any field
    of = field.type
    found: list[object] = [None] if field.nullable.includes(version) else []
    if isinstance(of, Array):
        found += [[], [*(value or []), *(value or [])]]
        if isinstance(of.of, Primitive):
            found += [[extreme] for extreme in extremes(of.of, topic_id)]
        else:
            found += [[of.of()], (value or [])[:1]]
    elif isinstance(of, Primitive):
        found += extremes(of, topic_id)
    return found


def changes(request: Message, version: int, topic_id: bytes) -> list[Change]:
    return [
        (place, value)
        for place, (holder, field) in enumerate(places(request, version))
        for value in boundaries(field, getattr(holder, field.name), version, topic_id)
    ]


def changed(make: Callable[[], Message], version: int, wanted: tuple[Change, ...]) -> Message:
    request = make()
    found = places(request, version)
    for place, value in wanted:
        holder, field = found[place]
        setattr(holder, field.name, value)
    if getattr(request, "max_wait_ms", 0) > 0:
        request.max_wait_ms = 1  # type: ignore[attr-defined] # a FetchRequest: the test would wait
    return request


def sweep(make: Callable[[], Message], version: int, topic_id: bytes) -> Iterator[Message]:
    """Requests with one field changed, then with two."""
    single = changes(make(), version, topic_id)
    for change in single:
        yield changed(make, version, (change,))
    pairs = [pair for pair in itertools.combinations(single, 2) if pair[0][0] != pair[1][0]]
    for pair in Random(version).sample(pairs, min(len(pairs), MOST_PAIRS)):
        yield changed(make, version, pair)


async def ask_all(arena: Arena, key: ApiKey, version: int) -> list[str]:
    """Send the whole sweep of a version; what went wrong."""
    kind = APIS[key].request_class
    wrong: list[str] = []

    def make() -> Message:
        request = decode(kind, version, encode(exemplar(key, arena.topic_id), version))
        if key in OF_A_MEMBER:
            as_member(request, arena)
        return request

    for request in sweep(make, version, arena.topic_id):
        if key in OF_A_MEMBER:
            await arena.renew_member()
            as_member_again(request, arena)
        try:
            body = encode(request, version)
        except EncodeError:
            continue  # a place where this version allows no null
        silent = getattr(request, "acks", 1) == 0
        try:
            reply = await arena.throw(arena.frame_of(key, version, body), may_wait=key in MAY_WAIT or silent)
        except ClosedError:
            if len(body) < ROWS[key].max_bytes - 100 and not silent:
                wrong.append(f"v{version} closed the connection: {str(request)[:300]}")
            reply = None
        if reply is not None and is_unknown(arena.read(key, version, reply)):
            wrong.append(f"v{version} answered UNKNOWN_SERVER_ERROR: {str(request)[:300]}")
        wrong += [f"v{version} {bug}: {str(request)[:300]}" for bug in arena.bugs()]
    return wrong


def as_member(request: Any, arena: Arena) -> None:  # noqa: ANN401 - one of several classes
    """Let a request come from the member that the group has, so that it gets further than the first check."""
    request.member_id = arena.member
    for entry in getattr(request, "assignments", None) or getattr(request, "members", None) or []:
        entry.member_id = arena.member
    for name in ("generation_id", "generation_id_or_member_epoch"):
        if hasattr(request, name):
            setattr(request, name, arena.generation)
    if hasattr(request, "group_instance_id"):
        request.group_instance_id = None


def as_member_again(request: Any, arena: Arena) -> None:  # noqa: ANN401 - one of several classes
    """The member may be another one by now."""
    if request.member_id.startswith("raw") or request.member_id.startswith("arena"):
        request.member_id = arena.member


@pytest.mark.parametrize("key", KEYS, ids=[key.name.lower() for key in KEYS])
def test_extremes_are_answered(arena: Arena, key: ApiKey) -> None:
    for version in (version for served, version in versions() if served is key):
        assert arena.run(partial(ask_all, arena, key, version)) == []
