"""Whatever comes over the wire, the broker survives it, serves everybody else, and runs into no bug."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.asking import batch, create, metadata_request, offset_at, produce, stored
from tests.broker.exemplars import exemplar, versions
from tests.broker.raw import Raw, framed
from tests.fault.arena import ABOUT_RIGHTS, GUARDED, Arena, ClosedError, is_unknown
from tests.fault.weird import confuse, damaged, resealed
from tests.rounds import FRAMES, ROUNDS

from kohort.codec.compiled import EncodeError, decode, encode
from kohort.codec.schema import Message
from kohort.records.batch import BatchFields
from kohort.records.compression import Codec
from kohort.testing.broker import Broker
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.offset_commit import OffsetCommitRequest

pytestmark = pytest.mark.slow

EVERY = list(versions())
each_version = pytest.mark.parametrize(
    ("key", "version"), EVERY, ids=[f"{key.name.lower()}-v{version}" for key, version in EVERY]
)
FRAMES_OF_AN_ARENA = 20_000  # then a new one: topics and groups made by accident stay
FRAMES_OF_A_RUN = 500
KIND, ID_SENT = slice(4, 8), slice(8, 12)  # of a frame: API with version, and correlation id
ID = slice(4)  # of a reply: the correlation id that it answers
METADATA = encode(metadata_request(), 13)

Arenas = Callable[[ApiKey], Arena]


@pytest.fixture(scope="module")
def arenas() -> Iterator[Arenas]:
    """The arena to attack, which is another one from time to time."""
    with ExitStack() as stack:
        found: list[Arena] = []
        configs: list[dict[str, str]] = []

        def current(key: ApiKey) -> Arena:
            wanted = GUARDED if key in ABOUT_RIGHTS else {}
            if not found or found[-1].asked > FRAMES_OF_AN_ARENA or configs != [wanted]:
                stack.close()
                found[:], configs[:] = [stack.enter_context(Arena(**wanted))], [wanted]
            return found[-1]

        yield current


@each_version
def test_damaged_frames_harm_nobody(arenas: Arenas, key: ApiKey, version: int) -> None:
    async def attack(arena: Arena, numbers: range) -> None:
        random = Random(f"{key} {version} {numbers}")
        whole = encode(exemplar(key, arena.topic_id), version)
        for number in numbers:
            frame = arena.frame_of(key, version, whole)
            following = arena.frame_of(ApiKey.METADATA, 13, METADATA)
            content = (
                framed(damaged(frame[4:], random)) + following,  # a frame, but what is in it?
                frame[: -len(whole)] + damaged(whole, random) + following,  # the size need not fit
                damaged(frame + following, random),  # anything
            )[number % 3]
            with suppress(ClosedError):
                reply = await arena.throw(content, may_wait=True)
                if reply is not None and content[KIND] == frame[KIND] and reply[ID] != following[ID_SENT]:
                    assert not is_unknown(arena.read(key, version, reply)), content.hex()
            assert arena.bugs() == [], content.hex()

    in_turns(arenas, key, attack)


@each_version
def test_requests_that_make_no_sense_are_answered(arenas: Arenas, key: ApiKey, version: int) -> None:
    async def attack(arena: Arena, numbers: range) -> None:
        random = Random(f"{key} {version} {numbers}")
        whole = encode(exemplar(key, arena.topic_id), version)
        for _ in numbers:
            request = confused(key, version, whole, arena.topic_id, random)
            try:
                body = encode(request, version)
            except EncodeError:
                continue  # a place where this version allows no null
            may_wait = key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) or getattr(request, "acks", 1) == 0
            with suppress(ClosedError):
                reply = await arena.throw(arena.frame_of(key, version, body), may_wait=may_wait)
                understood = reply is None or not is_unknown(arena.read(key, version, reply))
                assert understood or does_not_fit_a_batch(request), request
            assert arena.bugs() == [], request

    in_turns(arenas, key, attack)


def in_turns(arenas: Arenas, key: ApiKey, attack: Callable[[Arena, range], Awaitable[None]]) -> None:
    """Send all frames of a version, a few of them in one run of the loop: that starts slowly."""
    for first in range(0, FRAMES, FRAMES_OF_A_RUN):
        arena = arenas(key)
        arena.run(partial(attack, arena, range(first, min(first + FRAMES_OF_A_RUN, FRAMES))))


def confused(key: ApiKey, version: int, whole: bytes, topic_id: bytes, random: Random) -> Message:
    """A request that can be read, with values that nobody would send."""
    request = decode(APIS[key].request_class, version, whole)
    confuse(request, version, random, topic_id)
    if getattr(request, "max_wait_ms", 0) > 0:
        request.max_wait_ms = 1  # type: ignore[attr-defined] # a FetchRequest: the test would wait
    return request


def does_not_fit_a_batch(request: Message) -> bool:
    """A commit whose records, each with the group's name, are more than a batch holds: Kafka says -1 then."""
    if not isinstance(request, OffsetCommitRequest):
        return False
    rows = sum(len(topic.partitions) for topic in request.topics)
    return rows * len(request.group_id) > 1_000_000


def rounds(examples: int) -> settings:
    return settings(
        max_examples=examples * ROUNDS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing in the log that speaks of a bug."""
    caplog.set_level(logging.WARNING)
    yield
    bugs = [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in bugs] == []


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_batches_with_any_content_are_refused_or_can_be_read_by_all(
    broker: Broker, codec: Codec, policy: str
) -> None:
    numbered = BatchFields(codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    blob = batch("value one", "value two", fields=numbered)
    with Raw(broker.bootstrap, "fuzz") as client:
        create(client, "scratch", cleanup_policy=policy)

        @given(st.integers(0, 2**32))
        @rounds(60)
        def attack(seed: int) -> None:
            produce(client, "scratch", resealed(blob, Random(seed)))

        attack()
        end = offset_at(client, "scratch", -1).offset
        found = stored(client, "scratch")
        assert all(0 <= record.offset < end for record in found)
        for when in (-3, 0, 1, 2**40, 2**63 - 1):
            assert offset_at(client, "scratch", when).error_code == 0
        client.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="scratch")]), 6)
