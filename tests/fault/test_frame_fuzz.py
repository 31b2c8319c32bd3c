"""Whatever comes over the wire, the broker survives it, serves everybody else, and runs into no bug."""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.asking import append, batch, create, metadata, metadata_request, offset_at, produce, stored
from tests.broker.exemplars import exemplar, versions
from tests.broker.grouping import alone, commit_request
from tests.broker.raw import Raw, framed
from tests.fault.weird import confuse, damaged, resealed
from tests.rounds import ROUNDS

from kohort.codec.compiled import EncodeError, decode, encode
from kohort.codec.schema import Message
from kohort.records.batch import BatchFields
from kohort.records.compression import Codec
from kohort.testing.broker import Broker
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.framing import DEFAULT_LIMIT, LIMITS
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

pytestmark = pytest.mark.slow

PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_GROWTH = 150_000_000  # bytes of memory for a whole run; topics and groups made by accident stay
EVERY = list(versions())
each_version = pytest.mark.parametrize(
    ("key", "version"), EVERY, ids=[f"{key.name.lower()}-v{version}" for key, version in EVERY]
)
MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


def rounds(examples: int) -> settings:
    return settings(
        max_examples=examples * ROUNDS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def resident() -> int:
    """How much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(configs={"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5}) as broker:
        yield broker


@pytest.fixture(scope="module", autouse=True)
def _memory_stays_bounded(broker: Broker) -> Iterator[None]:
    before = resident()
    yield
    assert resident() - before < MOST_GROWTH * max(1, ROUNDS // 10)


@pytest.fixture
def ground(broker: Broker, caplog: pytest.LogCaptureFixture) -> Iterator["Ground"]:
    """A topic and a group to ask about; afterwards, nothing in the log that speaks of a bug."""
    caplog.set_level(logging.INFO)
    with Raw(broker.bootstrap, "witness") as witness:
        yield Ground(broker, witness)
    bugs = [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in bugs] == []


class Ground:
    """The broker under attack, and a client that must be served all the time."""

    def __init__(self, broker: Broker, witness: Raw) -> None:
        self._broker = broker
        self._witness = witness
        if metadata(witness, "t").topics[0].error_code:
            create(witness, "t", 2)
            append(witness, "t", batch("a"), batch("b"))
            member = alone(witness)
            witness.send(commit_request((0, 1), member=member), 8)
        self.topic_id: bytes = metadata(witness, "t").topics[0].topic_id

    def throw(self, content: bytes) -> None:
        """Send anything, and see that the connection ends and others are served."""
        with Raw(self._broker.bootstrap, "fuzz") as attacker, suppress(OSError):
            attacker.send_bytes(content)
            attacker.end_sending()
            while attacker.receive_once():
                pass
        assert metadata(self._witness).brokers

    def ask(self, key: ApiKey, version: int, body: bytes) -> None:
        """Send a request that can be read: it must be answered, and the answer can be read too."""
        with Raw(self._broker.bootstrap, "fuzz") as client:
            client.send_bytes(client.frame_of(key, version, body))
            assert isinstance(client.take(), Message)
        assert metadata(self._witness).brokers

    def frame(self, key: ApiKey, version: int, body: bytes) -> bytes:
        with Raw(self._broker.bootstrap, "fuzz") as client:
            return client.frame_of(key, version, body)


@each_version
def test_damaged_frames_harm_nobody(ground: Ground, key: ApiKey, version: int) -> None:
    whole = encode(exemplar(key, ground.topic_id), version)
    frame = ground.frame(key, version, whole)
    following = ground.frame(ApiKey.METADATA, 13, encode(metadata_request(), 13))

    @given(st.integers(0, 2**32))
    @rounds(3)
    def attack(seed: int) -> None:
        random = Random(seed)
        ground.throw(framed(damaged(frame[4:], random)) + following)  # a frame, but what is in it?
        ground.throw(frame[: -len(whole)] + damaged(whole, random) + following)  # the size need not fit
        ground.throw(damaged(frame + following, random))  # anything

    attack()


@each_version
def test_requests_that_make_no_sense_are_answered(ground: Ground, key: ApiKey, version: int) -> None:
    kind = APIS[key].request_class
    whole = encode(exemplar(key, ground.topic_id), version)

    @given(st.integers(0, 2**32))
    @rounds(6)
    def attack(seed: int) -> None:
        random = Random(seed)
        request = decode(kind, version, whole)
        confuse(request, version, random, ground.topic_id)
        harmless(request)
        try:
            body = encode(request, version)
        except EncodeError:
            return  # a place where this version allows no null
        too_large = len(body) > LIMITS.get(key, DEFAULT_LIMIT) - 100  # with its header, perhaps
        if key in MAY_WAIT or too_large or getattr(request, "acks", 1) == 0:
            ground.throw(ground.frame(key, version, body))
        else:
            ground.ask(key, version, body)

    attack()


def harmless(request: Message) -> None:
    """Long polls are cut short: the test waits for their replies."""
    if getattr(request, "max_wait_ms", 0) > 0:
        request.max_wait_ms = 1  # type: ignore[attr-defined] # a FetchRequest


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_batches_with_any_content_are_refused_or_can_be_read_by_all(
    broker: Broker, ground: Ground, codec: Codec, policy: str
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
