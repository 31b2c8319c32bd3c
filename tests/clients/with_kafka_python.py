"""kafka-python 3. It is not typed, so its objects are ``Any`` here."""

import contextlib
import gc
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future

import pytest
from tests.clients.libraries import (
    POLL_RECORDS,
    POLL_SECONDS,
    Got,
    Member,
    Membership,
    NotCommittedError,
    Production,
    ReadPartition,
    Sample,
    Untyped,
    Watcher,
    quietly,
)
from tests.clients.waiting import PATIENCE_SECONDS, Deadline

kafka = quietly("kafka")
errors = quietly("kafka.errors")
_ASSIGNORS = {
    "range": quietly("kafka.coordinator.assignors.range").RangePartitionAssignor,
    "roundrobin": quietly("kafka.coordinator.assignors.roundrobin").RoundRobinPartitionAssignor,
    "sticky": quietly("kafka.coordinator.assignors.sticky.sticky_assignor").StickyPartitionAssignor,
    "cooperative-sticky": quietly("kafka.coordinator.assignors.cooperative_sticky").CooperativeStickyAssignor,
}


def settings(bootstrap: str, **more: object) -> dict[str, Untyped]:
    """Settings of a client on a loopback broker that may restart: back off briefly."""
    return {
        "bootstrap_servers": bootstrap,
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 100,
        "retry_backoff_ms": 20,
        **more,
    }


def got(record: Untyped) -> Got:
    place = ReadPartition(record.topic, record.partition)
    return Got(place, record.offset, record.key, record.value, tuple(record.headers), record.timestamp)


@contextlib.contextmanager
def lost_sockets_collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python 3.0.12 drops sockets that could not connect without closing them.

    Where brokers go away, tests ignore the warning about unclosed sockets and collect them at once, so that
    no other test fails for it. Log records would keep them alive, by their tracebacks, beyond the test.
    """
    caplog.set_level(logging.CRITICAL + 1, logger="kafka")
    yield
    gc.collect()


class KafkaPython:
    """The library ``kafka-python``."""

    name = "kafka-python"

    def produce(self, bootstrap: str, topic: str, samples: Sequence[Sample], how: Production) -> list[int]:
        producer = kafka.KafkaProducer(
            **settings(
                bootstrap,
                compression_type=None if how.codec == "none" else how.codec,
                acks=how.acks if how.acks == "all" else int(how.acks),
                enable_idempotence=how.idempotent,
                linger_ms=5,
            )
        )
        with contextlib.closing(producer):
            futures = [
                producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    partition=sample.partition,
                    headers=list(sample.headers),
                    timestamp_ms=sample.timestamp,
                )
                for sample in samples
            ]
            producer.flush(timeout=20)
            return [future.get(timeout=10).offset for future in futures]

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Got]:
        records: list[Got] = []
        consumer = kafka.KafkaConsumer(
            **settings(bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        )
        with contextlib.closing(consumer):
            consumer.assign([kafka.TopicPartition(topic, number) for number in range(partitions)])
            deadline = Deadline(f"{count} records of {topic}")
            while len(records) < count:
                deadline.check(f"got {len(records)}")
                for some in consumer.poll(timeout_ms=100).values():
                    records += map(got, some)
        return records

    def join(self, bootstrap: str, membership: Membership, watcher: Watcher) -> Member:
        return KafkaPythonMember(bootstrap, membership, watcher)


class KafkaPythonMember:
    """A ``KafkaConsumer`` in a group, polled by a thread of its own.

    kafka-python 3.0.12 drops a join that was answered between two polls, and joins again; when the leader
    does, everybody has to. So it is polled without a pause, with records handed over as the test asks for
    them. All calls of the library happen on this one thread.
    """

    def __init__(self, bootstrap: str, membership: Membership, watcher: Watcher) -> None:
        self.name = membership.name
        self._watcher = watcher
        self._consumer = kafka.KafkaConsumer(
            **settings(
                bootstrap,
                client_id=membership.name,
                group_id=membership.group,
                group_instance_id=membership.instance_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                partition_assignment_strategy=[_ASSIGNORS[name] for name in membership.assignors],
                session_timeout_ms=membership.session_ms,
                heartbeat_interval_ms=membership.heartbeat_ms,
                max_poll_interval_ms=membership.rebalance_ms,
                fetch_max_wait_ms=50,
                max_poll_records=POLL_RECORDS,
            )
        )
        self._consumer.subscribe(topics=list(membership.topics), listener=self._listener())
        for topic in membership.topics:
            # Know the partitions before the first join. Otherwise the library joins once more when it
            # learns them, and forgets such a join, heartbeats included, if the poll that began it times
            # out before the answer is there.
            self._consumer.partitions_for_topic(topic)
        self._thread = PollingThread(self._consumer)

    def poll(self) -> int:
        return self._thread.take(lambda records: self._watcher.consumed(self.name, records))

    def commit(self, offsets: Mapping[ReadPartition, int]) -> None:
        wanted = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        try:
            self._thread.run(lambda: self._consumer.commit(wanted, timeout_ms=10_000))
        except errors.KafkaError as error:
            uncertain = isinstance(error, errors.KafkaTimeoutError | errors.KafkaConnectionError)
            raise NotCommittedError(error, maybe=uncertain) from error

    def committed(self, place: ReadPartition) -> int | None:
        asked = kafka.TopicPartition(*place)
        offset: int | None = self._thread.run(lambda: self._consumer.committed(asked, timeout_ms=10_000))
        return offset

    def pause(self, places: Iterable[ReadPartition]) -> None:
        chosen = [kafka.TopicPartition(*place) for place in places]
        self._thread.run(lambda: self._consumer.pause(*chosen))

    def resume(self, places: Iterable[ReadPartition]) -> None:
        chosen = [kafka.TopicPartition(*place) for place in places]
        self._thread.run(lambda: self._consumer.resume(*chosen))

    def close(self) -> None:
        self._thread.stop()
        self._consumer.close(autocommit=False)

    def _listener(self) -> Untyped:
        def assigned(_listener: object, partitions: Iterable[Untyped]) -> None:
            self._watcher.assigned(self.name, places(partitions))

        def revoked(_listener: object, partitions: Iterable[Untyped]) -> None:
            self._watcher.revoked(self.name, places(partitions))

        methods = {
            "on_partitions_assigned": assigned,
            "on_partitions_revoked": revoked,
            "on_partitions_lost": revoked,
        }
        return type("Listener", (kafka.ConsumerRebalanceListener,), methods)()


class PollingThread:
    """Polls a consumer until there are records, and again when they were taken; runs calls in between."""

    def __init__(self, consumer: Untyped) -> None:
        self._consumer = consumer
        self._change = threading.Condition()
        self._calls: deque[tuple[Callable[[], Untyped], Future[Untyped]]] = deque()
        self._records: list[Got] = []
        self._failure: Exception | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="kafka-python member", daemon=True)
        self._thread.start()

    def take(self, use: Callable[[list[Got]], None]) -> int:
        """Wait a moment for records, use them, and only then let the thread poll for more."""
        with self._change:
            self._change.wait_for(lambda: self._records or self._failure, POLL_SECONDS)
            if self._failure is not None:
                raise self._failure
            records, self._records = self._records, []
            use(records)
            self._change.notify_all()
            return len(records)

    def run(self, call: Callable[[], Untyped]) -> Untyped:
        """Run a call between two polls; its result."""
        future: Future[Untyped] = Future()
        with self._change:
            self._calls.append((call, future))
            self._change.notify_all()
        return future.result(PATIENCE_SECONDS)

    def stop(self) -> None:
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._wait_for_work():
                if self._calls:
                    self._answer(*self._calls.popleft())
                else:
                    self._poll()
        except Exception as error:
            with self._change:
                self._failure = error
                self._change.notify_all()

    def _wait_for_work(self) -> bool:
        with self._change:
            self._change.wait_for(lambda: self._stopping or self._calls or not self._records)
            return not self._stopping

    def _poll(self) -> None:
        try:
            batches = self._consumer.poll(timeout_ms=100)
        except kafka.errors.UnknownBrokerIdError:
            # 3.0.12 follows the hint of a Fetch v12 (KIP-951, without an address) to a node that it does not
            # know yet, asks for metadata, and fails until they come.
            return
        with self._change:
            self._records = [got(record) for some in batches.values() for record in some]
            self._change.notify_all()

    def _answer(self, call: Callable[[], Untyped], future: "Future[Untyped]") -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)


def places(partitions: Iterable[Untyped]) -> list[ReadPartition]:
    return [ReadPartition(one.topic, one.partition) for one in partitions]
