"""A disk that fails or is full: the request gets the protocol's error, the broker stays up, and recovers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.broker.asking import (
    append,
    batch,
    create,
    eventually,
    fetch,
    metadata,
    metadata_request,
    produce,
    produce_request,
    values,
)
from tests.broker.grouping import commit_request, find
from tests.broker.raw import Raw

from kohort.broker.clock import VirtualClock
from kohort.broker.notices import WINDOW_MS
from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.log.background import Threads
from kohort.log.files.storage import LogStorage
from kohort.log.log import SyncPolicy
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.testing.faults import FakeDisk, Fault
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

ALWAYS = [Fault(number) for number in range(1, 50)]
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Patient:
    """A broker whose disk the test owns."""

    def __init__(
        self, host: Broker, address: str, server: Server, disk: FakeDisk, clock: VirtualClock
    ) -> None:
        self.address = address
        self.server = server
        self.disk = disk
        self._host = host
        self._clock = clock

    def advance(self, milliseconds: int) -> None:
        async def move() -> None:
            self._clock.advance(milliseconds)

        self._host.run(move())


@contextmanager
def started(policy: SyncPolicy) -> Iterator[tuple[Patient, Raw]]:
    disk, clock = FakeDisk(), VirtualClock()
    with Broker() as host:  # lends its loop
        server = Server(Settings(port=0, fsync=policy), clock=clock, disk=disk)
        address = str(host.run(server.start()))
        try:
            with Raw(address) as raw:
                yield Patient(host, address, server, disk, clock), raw
        finally:
            disk.kill()
            host.run(server.stop())


def test_a_batch_that_cannot_be_synced_is_not_acknowledged_and_its_log_recovers() -> None:
    with started(SyncPolicy.COMMIT) as (patient, raw):
        create(raw, "t")
        create(raw, "u")
        append(raw, "t", batch("safe"))
        patient.disk.fail(syncs=ALWAYS)
        assert produce(raw, "t", batch("lost")).error_code == STORAGE_ERROR
        patient.disk.fail()
        assert produce(raw, "t", batch("refused")).error_code == STORAGE_ERROR
        assert fetch(raw, "t").error_code == STORAGE_ERROR
        assert produce(raw, "u", batch("elsewhere")).error_code == 0

        def well_again() -> bool:
            patient.advance(5_000)
            code: int = produce(raw, "t", batch("again")).error_code
            return code == 0

        eventually(well_again)
        assert values(raw, "t") == ["safe", "again"]


def test_a_silent_produce_that_cannot_be_synced_closes_the_connection_when_that_is_known() -> None:
    with started(SyncPolicy.COMMIT) as (patient, raw), Raw(patient.address) as other:
        create(raw, "t")
        raw.post_unanswered(produce_request("t", batch("a"), acks=0), 12)
        assert raw.send(metadata_request("t"), 13).topics[0].error_code == 0
        patient.disk.fail(syncs=ALWAYS)
        raw.post(produce_request("t", batch("b"), acks=0), 12)
        assert raw.is_closed()
        assert other.send(metadata_request("t"), 13).brokers


def test_a_full_disk_refuses_and_forgives() -> None:
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        create(raw, "t")
        append(raw, "t", batch("a"))
        patient.disk.capacity = patient.disk.used() + 200
        assert produce(raw, "t", batch("x" * 1_000)).error_code == STORAGE_ERROR
        assert metadata(raw, "t").topics[0].error_code == 0
        patient.disk.capacity = None
        append(raw, "t", batch("b"))
        assert values(raw, "t") == ["a", "b"]


def test_faults_that_requests_meet_are_logged_once_a_minute_and_a_few_in_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        create(raw, "t", partitions=25)
        patient.disk.capacity = patient.disk.used() + 200
        produce(raw, "t", batch("x" * 1_000))
        produce(raw, "t", *[batch("x" * 1_000)] * 25)
        patient.advance(WINDOW_MS)
        lines = [line.getMessage() for line in caplog.records if line.name == "kohort.storage"]
    assert [line.split()[0] for line in lines[:-1]] == [f"t-{number}" for number in range(20)]
    assert lines[-1].startswith("faults of the storage: 6 more in the last minute")
    assert "the last: t-24 could not be written" in lines[-1]


def test_a_topic_that_cannot_be_written_down_does_not_exist() -> None:
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        patient.disk.fail(writes=ALWAYS)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        (result,) = raw.send(CreateTopicsRequest(topics=[topic]), 7).topics
        assert result.error_code == STORAGE_ERROR
        assert result.error_message
        assert metadata(raw, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        patient.disk.fail()
        create(raw, "t")


def test_a_coordinator_that_cannot_be_made_is_not_available() -> None:
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        patient.disk.fail(writes=ALWAYS)
        assert find(raw).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        patient.disk.fail()
        assert find(raw).error_code == 0


def test_a_commit_that_cannot_be_written_is_told_and_the_next_one_succeeds() -> None:
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        create(raw, "t")
        find(raw)
        patient.disk.fail(writes=ALWAYS)
        failed = raw.send(commit_request((0, 5)), 8).topics[0].partitions[0].error_code
        assert failed not in (0, ErrorCode.UNKNOWN_SERVER_ERROR)
        patient.disk.fail()
        assert raw.send(commit_request((0, 6)), 8).topics[0].partitions[0].error_code == 0


def test_a_member_whose_epoch_cannot_be_written_is_refused_and_joins_later() -> None:
    """What it was not granted does not count: the group begins with epoch 1."""
    joins = ConsumerGroupHeartbeatRequest(
        group_id="modern",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        create(raw, "t")
        find(raw, "modern")
        patient.disk.fail(writes=ALWAYS)
        assert raw.send(joins, 1).error_code == ErrorCode.NOT_COORDINATOR
        patient.disk.fail()

        def well_again() -> bool:
            patient.advance(1_000)
            reply = raw.send(joins, 1)
            return (reply.error_code, reply.member_epoch) == (0, 1)

        eventually(well_again)


def test_a_thread_that_cannot_be_started_refuses_a_commit_and_later_ones_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("kohort-sync") and not freed.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    freed = threading.Event()
    freed.set()
    with started(SyncPolicy.INTERVAL) as (patient, raw):
        create(raw, "t")
        find(raw)
        storage = patient.server.broker.storage
        assert isinstance(storage, LogStorage)
        monkeypatch.setattr(storage._flusher, "executor", Threads(4, "kohort-sync"))  # one without a thread
        freed.clear()
        monkeypatch.setattr(threading.Thread, "start", refuse)
        refused = raw.send(commit_request((0, 5)), 8).topics[0].partitions[0].error_code
        assert refused not in (0, ErrorCode.UNKNOWN_SERVER_ERROR)
        freed.set()

        def well_again() -> bool:
            patient.advance(1_000)
            code: int = raw.send(commit_request((0, 6)), 8).topics[0].partitions[0].error_code
            return code == 0

        eventually(well_again)
