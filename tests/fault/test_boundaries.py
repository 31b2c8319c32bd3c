"""Every field of every request at its extremes: a protocol answer or a closed connection, never a bug.

What is sent is made of the schemas: one field at a time in a sensible request, and two at a time where there
are few. A new API or version is in it as soon as it is served.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.broker.exemplars import exemplar, versions
from tests.fault.arena import ABOUT_RIGHTS, GUARDED, Arena, ClosedError, is_unknown
from tests.fault.extremes import changed, changes
from tests.fault.largest import ROWS
from tests.rounds import ROUNDS

from kohort.codec.compiled import EncodeError, decode, encode
from kohort.codec.schema import Message
from kohort.wire.apis import APIS, ApiKey

pytestmark = pytest.mark.slow

MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
WITH_CODES = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)  # unknown ones close, as in Kafka
OF_A_MEMBER = (
    ApiKey.HEARTBEAT,
    ApiKey.JOIN_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.SYNC_GROUP,
)
MOST_PAIRS = 60 if ROUNDS == 1 else 200 * ROUNDS  # of a version
KEYS = list(dict.fromkeys(key for key, _ in versions()))


@pytest.fixture(scope="module")
def arenas() -> Iterator[Callable[[ApiKey], Arena]]:
    """The arena for an API: one that has rights to change, or one that has none."""
    with Arena() as arena, Arena(**GUARDED) as guarded:
        yield lambda key: guarded if key in ABOUT_RIGHTS else arena


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
            unreadable = key in WITH_CODES or len(body) > ROWS[key].max_bytes - 100
            if not unreadable and not silent:
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
def test_extremes_are_answered(arenas: Callable[[ApiKey], Arena], key: ApiKey) -> None:
    arena = arenas(key)
    for version in (version for served, version in versions() if served is key):
        assert arena.run(partial(ask_all, arena, key, version)) == []
