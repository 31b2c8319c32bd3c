"""Clients that do not read, do not finish, hang up or come in crowds: nobody else notices."""

import gc
import logging
import resource
import socket
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.broker.asking import (
    append,
    batch,
    create,
    eventually,
    fetch_request,
    let_idle_time_pass,
    metadata,
    metadata_request,
    part,
    produce_request,
    waiting_fetches,
)
from tests.broker.grouping import find, heartbeat_request, join_request
from tests.broker.raw import Raw

from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.testing.broker import Broker
from kohort.wire.messages.api_versions import ApiVersionsRequest

MB = 1_000_000


@pytest.fixture
def broker(caplog: pytest.LogCaptureFixture) -> Iterator[Broker]:
    """A broker that must not run into a bug."""
    caplog.set_level(logging.WARNING)
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def connections(broker: Broker) -> int:
    async def count() -> int:
        return broker.server.connections

    return broker.run(count())


@contextmanager
def memory_grows_by_less_than(limit: int) -> Iterator[None]:
    """What Python holds at most inside the block, beyond what it held before."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < limit, f"{(peak - before) / MB:.1f} MB"


def stuff(stream: Raw, content: bytes) -> int:
    """Send until the broker takes no more for a moment; how many bytes it took."""
    peer = stream.socket
    sent = 0
    peer.settimeout(0.2)
    try:
        while sent < len(content):
            sent += peer.send(content[sent : sent + 65_536])
    except TimeoutError:
        pass
    return sent


def reset(stream: Raw) -> None:
    """Hang up without a goodbye: the other end sees a reset."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


# Clients that do not read


@pytest.mark.slow
def test_a_client_that_never_reads_its_replies_blocks_nobody_and_costs_little(broker: Broker) -> None:
    with Raw(broker.bootstrap, receive_buffer=4_096) as slow, Raw(broker.bootstrap) as other:
        create(other, "t")
        for _ in range(4):
            append(other, "t", batch("x" * MB))
        request = fetch_request({"t": [part(limit=5 * MB)]}, max_bytes=5 * MB)
        flood = slow.frame(request, 12) * 500_000  # 2 TB of replies
        with memory_grows_by_less_than(30 * MB):
            taken = stuff(slow, flood)
            assert taken < len(flood), "everything was read, and must be answered"
            for _ in range(50):
                assert metadata(other, "t").topics[0].error_code == 0
        assert slow.take().responses[0].partitions[0].high_watermark == 4  # it was served as far as it reads


@pytest.mark.slow
def test_many_small_replies_that_nobody_reads_cost_little(broker: Broker) -> None:
    with Raw(broker.bootstrap, receive_buffer=4_096) as slow, Raw(broker.bootstrap) as other:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        flood = slow.frame(request, 4) * 2_000_000
        with memory_grows_by_less_than(5 * MB):
            assert stuff(slow, flood) < len(flood)
            assert metadata(other).brokers


def test_a_client_that_stopped_reading_is_dropped_when_its_time_is_up(broker: Broker) -> None:
    async def is_choked() -> bool:
        return any(connection._choked for connection in broker.server._connections)

    with Raw(broker.bootstrap, receive_buffer=4_096) as slow:
        create(slow, "t")
        for _ in range(4):
            append(slow, "t", batch("x" * MB))
        request = fetch_request({"t": [part(limit=5 * MB)]}, max_bytes=5 * MB)
        slow.send_bytes(b"".join(slow.frame(request, 12) for _ in range(10)))
        eventually(lambda: broker.run(is_choked()))
        let_idle_time_pass(broker)
        eventually(lambda: connections(broker) == 0)


def test_a_slow_reader_gets_everything_in_the_end(broker: Broker) -> None:
    with Raw(broker.bootstrap, receive_buffer=4_096) as slow:
        create(slow, "t")
        append(slow, "t", batch("x" * MB))
        request = fetch_request({"t": [part(limit=2 * MB)]}, max_bytes=2 * MB)
        slow.send_bytes(b"".join(slow.frame(request, 12) for _ in range(20)))
        for _ in range(20):
            assert len(slow.take().responses[0].partitions[0].records) > MB


# Clients that do not finish


def test_half_of_a_huge_request_costs_only_what_was_sent(broker: Broker) -> None:
    announced = struct.pack(">ihhi", 100 * MB, 0, 12, 1) + b"\x00\x03raw" + bytes(1_000)
    with ExitStack() as stack, Raw(broker.bootstrap) as other, memory_grows_by_less_than(3 * MB):
        for _ in range(200):
            stack.enter_context(Raw(broker.bootstrap)).send_bytes(announced)
        assert metadata(other).brokers
        eventually(lambda: connections(broker) == 201)


def test_requests_that_never_end_block_nobody(broker: Broker) -> None:
    with ExitStack() as stack, Raw(broker.bootstrap) as other:
        halves = []
        for number in range(50):
            stream = stack.enter_context(Raw(broker.bootstrap))
            frame = stream.frame(metadata_request("x" * 100), 13)
            cut = 1 + number * (len(frame) - 2) // 49
            stream.send_bytes(frame[:cut])
            halves.append((stream, frame[cut:]))
        assert metadata(other).brokers
        for stream, rest in halves:
            stream.send_bytes(rest)
            assert stream.take().topics[0].name == "x" * 100


# Clients that hang up


def test_clients_that_hang_up_at_any_moment_leave_nothing_behind(broker: Broker) -> None:
    with Raw(broker.bootstrap) as other:
        create(other, "t")
        find(other)
        requests = [
            (metadata_request("t"), 13),
            (produce_request("t", batch("x" * 10_000)), 12),
            (fetch_request({"t": [part(offset=0)]}, wait=60_000, min_bytes=10 * MB), 12),
            (join_request(group="crowd"), 3),
            (metadata_request("another", create=True), 13),
        ]
        for round_ in range(20):
            for request, version in requests:
                stream = Raw(broker.bootstrap)
                frame = stream.frame(request, version)
                stream.send_bytes(frame[: len(frame) - round_ % 3])
                reset(stream) if round_ % 2 else stream.close()
        eventually(lambda: connections(broker) == 1)
        eventually(lambda: waiting_fetches(broker) == 0)  # given up in the turn after their connections
        assert metadata(other, "t").topics[0].error_code == 0


def test_a_client_that_hangs_up_with_requests_behind_its_wait_is_noticed(broker: Broker) -> None:
    with Raw(broker.bootstrap) as other:
        create(other, "t")
        stream = Raw(broker.bootstrap)
        waiting = stream.frame(fetch_request({"t": [part()]}, wait=2**31 - 1), 12)
        stream.send_bytes(waiting + stream.frame(metadata_request("t"), 13) * 100)
        eventually(lambda: waiting_fetches(broker) == 1)
        stream.close()
        eventually(lambda: waiting_fetches(broker) == 0)
        eventually(lambda: connections(broker) == 1)


def test_what_gathers_behind_a_wait_is_bounded(broker: Broker) -> None:
    with Raw(broker.bootstrap) as other, Raw(broker.bootstrap) as stream:
        create(other, "t")
        stream.post(fetch_request({"t": [part()]}, wait=60_000), 12)
        eventually(lambda: waiting_fetches(broker) == 1)
        flood = stream.frame(metadata_request("t"), 13) * 1_000_000
        with memory_grows_by_less_than(2 * MB):
            assert stuff(stream, flood) < len(flood)
            assert metadata(other, "t").topics[0].error_code == 0


# Clients that come in crowds


@pytest.mark.slow
def test_a_thousand_idle_connections_cost_little_and_are_served_when_they_wake(broker: Broker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4_096:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4_096), hard))
    try:
        with ExitStack() as stack, Raw(broker.bootstrap) as other:
            with memory_grows_by_less_than(20 * MB):
                crowd = [stack.enter_context(Raw(broker.bootstrap)) for _ in range(1_000)]
                eventually(lambda: connections(broker) == 1_001)
                assert metadata(other).brokers
            for stream in crowd:
                stream.post(heartbeat_request("x", 1), 4)
            for stream in crowd:
                stream.take()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_one_connection_too_many_is_told_in_the_log(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(Settings(port=0, max_connections=2))
    address = str(broker.run(server.start()))
    try:
        with Raw(address) as first, Raw(address) as second:
            assert metadata(first).brokers
            assert metadata(second).brokers
            with Raw(address) as third:
                assert third.is_closed()
            assert metadata(first).brokers
        assert "2 connections are open already" in caplog.text
    finally:
        broker.run(server.stop())


def test_a_connection_that_closes_makes_room_for_another(broker: Broker) -> None:
    server = Server(Settings(port=0, max_connections=1))
    address = str(broker.run(server.start()))

    def served() -> bool:
        with Raw(address) as stream:
            try:
                return bool(metadata(stream).brokers)
            except ConnectionError:
                return False

    try:
        with Raw(address) as first:
            assert metadata(first).brokers
            assert not served()
        eventually(served)
    finally:
        broker.run(server.stop())
