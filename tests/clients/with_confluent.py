"""confluent-kafka, which is librdkafka."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
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
    Watcher,
)
from tests.clients.waiting import Deadline

# librdkafka writes to standard error unless it is given a logger. The fixture in conftest.py looks
# through what comes here for protocol errors.
logger = logging.getLogger("tests.librdkafka")
logger.propagate = False  # connection errors are expected where brokers restart
logger.addHandler(logging.NullHandler())

_UNCERTAIN = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._DESTROY)


def settings(bootstrap: str, **more: object) -> dict[str, Any]:
    """Settings of a client on a loopback broker that may restart: back off briefly."""
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "logger": logger,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def got(message: "Message[bytes, bytes]") -> Got:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: list[Any] = list(message.headers() or ())
    return Got(
        ReadPartition(topic, partition),
        offset,
        message.key(),
        message.value(),
        tuple((name, value) for name, value in headers),
        message.timestamp()[1],
    )


class Confluent:
    """The library ``confluent``."""

    name = "confluent"

    def produce(self, bootstrap: str, topic: str, samples: Sequence[Sample], how: Production) -> list[int]:
        offsets = [-2] * len(samples)
        errors: list[KafkaError] = []
        how_to = {"compression.type": how.codec, "acks": how.acks, "enable.idempotence": how.idempotent}
        with Producer(settings(bootstrap, linger_ms=5) | how_to) as producer:
            for number, sample in enumerate(samples):

                def delivered(error: KafkaError | None, message: Message, number: int = number) -> None:
                    if error is not None:
                        errors.append(error)
                    offsets[number] = -1 if message.offset() is None else message.offset()  # type: ignore[assignment] # checked

                producer.produce(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    partition=sample.partition,
                    headers=list(sample.headers) or None,
                    timestamp=sample.timestamp,
                    on_delivery=delivered,
                )
                producer.poll(0)
            assert producer.flush(20) == 0
        assert not errors, errors[0]
        return offsets

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Got]:
        records: list[Got] = []
        consumer = Consumer(settings(bootstrap, group_id="nobody", enable_auto_commit=False, check_crcs=True))
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
            deadline = Deadline(f"{count} records of {topic}")
            while len(records) < count:
                deadline.check(f"got {len(records)}")
                for message in consumer.consume(1_000, timeout=0.1):
                    error = message.error()
                    assert error is None, error
                    records.append(got(message))
        finally:
            consumer.close()
        return records

    def join(self, bootstrap: str, membership: Membership, watcher: Watcher) -> Member:
        return ConfluentMember(bootstrap, membership, watcher)


class ConfluentMember:
    """A ``Consumer`` in a group."""

    def __init__(self, bootstrap: str, membership: Membership, watcher: Watcher) -> None:
        self.name = membership.name
        self._watcher = watcher
        self._held: set[ReadPartition] = set()
        self._closing = False
        is_consumer = membership.protocol == "consumer"
        self._cooperative = is_consumer or "cooperative-sticky" in membership.assignors
        of_protocol: dict[str, object] = {
            "partition.assignment.strategy": ",".join(membership.assignors),
            "session.timeout.ms": membership.session_ms,
            "heartbeat.interval.ms": membership.heartbeat_ms,
        }
        if is_consumer:  # the broker says how often, and who gets what
            of_protocol = {"group.protocol": "consumer"}
        identity = {} if membership.instance_id is None else {"group.instance.id": membership.instance_id}
        self._consumer = Consumer(
            settings(
                bootstrap,
                client_id=membership.name,
                group_id=membership.group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_interval_ms=membership.rebalance_ms,
                fetch_wait_max_ms=50,
            )
            | of_protocol
            | identity
        )
        self._consumer.subscribe(
            list(membership.topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def poll(self) -> int:
        message = self._consumer.poll(POLL_SECONDS)
        count = 0
        while message is not None:
            error = message.error()
            if error is None:
                count += 1
                self._watcher.consumed(self.name, [got(message)])
            elif error.fatal() or not error.retriable():
                # librdkafka retries by itself; it only reports what a retry might not mend.
                logger.info("%s: %s", self.name, error)
            message = self._consumer.poll(0) if count < POLL_RECORDS else None
        return count

    def commit(self, offsets: Mapping[ReadPartition, int]) -> None:
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            raise NotCommittedError(error, maybe=error.args[0].code() in _UNCERTAIN) from error
        for answer in answers:
            if answer.error is not None:
                raise NotCommittedError(answer.error, maybe=answer.error.code() in _UNCERTAIN)

    def committed(self, place: ReadPartition) -> int | None:
        (answer,) = self._consumer.committed([TopicPartition(*place)], timeout=10)
        assert answer.error is None, answer.error
        return answer.offset if answer.offset >= 0 else None

    def pause(self, places: Iterable[ReadPartition]) -> None:
        self._consumer.pause([TopicPartition(*place) for place in places])

    def resume(self, places: Iterable[ReadPartition]) -> None:
        self._consumer.resume([TopicPartition(*place) for place in places])

    def close(self) -> None:
        # Closed during a rebalance, librdkafka sends LeaveGroup before it calls back: others may have the
        # partitions by then. It hands out no record any more.
        self._closing = True
        self._watcher.revoked(self.name, self._held)
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Told first, taken then: the watcher must know the owner before a record can come.
        if not self._closing:
            given = [ReadPartition(one.topic, one.partition) for one in partitions]
            self._held.update(given)
            self._watcher.assigned(self.name, given)
        if self._cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._closing:
            given_up = [ReadPartition(one.topic, one.partition) for one in partitions]
            self._held.difference_update(given_up)
            self._watcher.revoked(self.name, given_up)
        if self._cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
