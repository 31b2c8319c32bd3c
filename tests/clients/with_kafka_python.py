"""kafka-python 3. It is not typed, so its objects are ``Any`` here."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from tests.clients.libraries import (
    POLL_RECORDS,
    POLL_SECONDS,
    Got,
    Member,
    Membership,
    NotCommittedError,
    Place,
    Production,
    Sample,
    Untyped,
    Watcher,
    quietly,
)
from tests.clients.waiting import Deadline

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
    place = Place(record.topic, record.partition)
    return Got(place, record.offset, record.key, record.value, tuple(record.headers), record.timestamp)


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
    """A ``KafkaConsumer`` in a group. Its listener runs on the library's thread, but only during a poll."""

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
        listener: Untyped = type(
            "Listener",
            (kafka.ConsumerRebalanceListener,),
            {
                "on_partitions_assigned": lambda _, some: watcher.assigned(self.name, places(some)),
                "on_partitions_revoked": lambda _, some: watcher.revoked(self.name, places(some)),
                "on_partitions_lost": lambda _, some: watcher.revoked(self.name, places(some)),
            },
        )
        self._consumer.subscribe(topics=list(membership.topics), listener=listener())

    def poll(self) -> int:
        records = [
            got(record)
            for some in self._consumer.poll(timeout_ms=round(POLL_SECONDS * 1_000)).values()
            for record in some
        ]
        self._watcher.consumed(self.name, records)
        return len(records)

    def assignment(self) -> set[Place]:
        return set(places(self._consumer.assignment()))

    def commit(self, offsets: Mapping[Place, int]) -> None:
        wanted = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted, timeout_ms=10_000)
        except errors.KafkaError as error:
            uncertain = isinstance(error, errors.KafkaTimeoutError | errors.KafkaConnectionError)
            raise NotCommittedError(error, maybe=uncertain) from error

    def committed(self, place: Place) -> int | None:
        offset: int | None = self._consumer.committed(kafka.TopicPartition(*place), timeout_ms=10_000)
        return offset

    def pause(self, places: Iterable[Place]) -> None:
        self._consumer.pause(*[kafka.TopicPartition(*place) for place in places])

    def resume(self, places: Iterable[Place]) -> None:
        self._consumer.resume(*[kafka.TopicPartition(*place) for place in places])

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def places(partitions: Iterable[Untyped]) -> list[Place]:
    return [Place(one.topic, one.partition) for one in partitions]
