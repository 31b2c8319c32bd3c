"""One peer tries everything on a running broker: bystanders notice nothing, and memory has its bounds."""

import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from tests.broker.asking import create, metadata_request
from tests.broker.exemplars import exemplar, versions
from tests.broker.grouping import find
from tests.broker.raw import Raw, framed
from tests.clients.node import Node
from tests.fault.attack import EVERYTHING
from tests.fault.bystanders import beat, bystanders
from tests.fault.strangers import BUDGETS, MB, STRANGERS, prepare
from tests.fault.test_memory import memory_of
from tests.fault.weird import confuse, damaged

from kohort.codec.compiled import EncodeError, decode, encode
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.headers import RequestHeader, request_header

OTHERWISE = 350 * MB  # data that inflates to 64 MB, twice; large requests in work; freed and not returned
CONFIGS = {**BUDGETS, "kohort.stalled.ms": 1_000, "group.initial.rebalance.delay.ms": 0}
FRAMES = 12  # of each version of each API
CROWD = 300
ABOUT_TOPICS = (
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
)  # they may end all groups
logger = logging.getLogger("tests.attack")


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_bystanders_keep_their_sessions_whatever_a_peer_does(tmp_path: Path) -> None:
    with Node(tmp_path, CONFIGS) as node:
        prepare(node.bootstrap)
        with Raw(node.bootstrap) as raw:
            topic_id = create(raw, "t", 2)
            find(raw)
        before = memory_of(node.pid, "VmRSS")
        rounds: dict[str, Callable[[], None]] = {
            "the largest requests": lambda: largest_requests(node.bootstrap, topic_id),
            "frames that are damaged or make no sense": lambda: odd_frames(node.bootstrap, topic_id),
            "clients that hang up": lambda: crowds(node.bootstrap),
            "strangers": lambda: strangers(node.bootstrap),
            "the largest requests again": lambda: largest_requests(node.bootstrap, topic_id),
        }
        with undisturbed(node.bootstrap):
            for name, attack in rounds.items():
                attack()
                most = memory_of(node.pid, "VmHWM") - before
                logger.warning("%s: grown by %d MB at most", name, most // MB)
                assert most < sum(BUDGETS.values()) + OTHERWISE, name
                assert "Traceback" not in node.said(), name


@contextmanager
def undisturbed(bootstrap: str) -> Iterator[None]:
    """A member with a session of six seconds that beats every two; another one, a producer and a consumer."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool, bystanders(bootstrap):
        member = pool.submit(beat, bootstrap, over, 2.0)
        try:
            yield
        finally:
            over.set()
        assert set(member.result()) == {0}


def largest_requests(bootstrap: str, topic_id: bytes) -> None:
    assert EVERYTHING.run(bootstrap, topic_id, "heavy") > len(EVERYTHING.versions)


def odd_frames(bootstrap: str, topic_id: bytes) -> None:
    """Frames of every version of every API: some are damaged anywhere, some can be read and make no sense."""
    for key, version in versions():
        random = Random(f"{key} {version}")
        whole = encode(exemplar(key, topic_id), version)
        for number in range(FRAMES):
            body = whole
            if number % 2 and key not in ABOUT_TOPICS:
                request = decode(APIS[key].request_class, version, whole)
                confuse(request, version, random, topic_id)
                with suppress(EncodeError):
                    body = encode(request, version)
            frame = framed(request_header(RequestHeader(key, version, number, "odd")) + body)
            throw(bootstrap, frame if number % 2 else damaged(frame, random))


def throw(bootstrap: str, frame: bytes) -> None:
    """Send it with a request behind it, and read until the broker has answered or closed."""
    with Raw(bootstrap, "odd") as raw, suppress(TimeoutError, ConnectionError):
        raw.socket.settimeout(0.2)  # it may wait for the rest of a frame, or for other members
        raw.socket.sendall(frame + raw.frame(metadata_request(), 13))
        raw.socket.shutdown(socket.SHUT_WR)
        while raw.socket.recv(MB):
            pass


def crowds(bootstrap: str) -> None:
    """Connections that hang up in the middle of a request, and many that are only there."""
    frame = framed(
        request_header(RequestHeader(ApiKey.METADATA, 13, 1, "crowd")) + encode(metadata_request(), 13)
    )
    with ExitStack() as stack:
        for number in range(CROWD):
            stack.enter_context(Raw(bootstrap)).send_bytes(frame[: number % len(frame)])
        for number in range(5 * CROWD):
            with Raw(bootstrap) as raw:
                raw.send_bytes(frame[: number % (len(frame) + 1)])
                if number % 2:
                    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def strangers(bootstrap: str) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(len(STRANGERS)) as pool:
        for done in [pool.submit(each, bootstrap, stack) for each in STRANGERS]:
            done.result()
