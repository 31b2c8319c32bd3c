"""Kohort's own consumer, as the tests ask it of a library."""

from collections.abc import Iterable, Mapping

from tests.clients.libraries import (
    POLL_RECORDS,
    POLL_SECONDS,
    Got,
    Membership,
    NotCommittedError,
    ReadPartition,
    Watcher,
)
from tests.clients.with_confluent import Confluent

from kohort.client.consumer import Consumer
from kohort.client.consumer.settings import ConsumerOptions
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.subscription import Partitions
from kohort.model.errors import KohortError

POLL_MS = POLL_SECONDS * 1_000


class OwnMember:
    """A ``Consumer`` in a group, as the parties of these tests know members."""

    def __init__(self, bootstrap: str, membership: Membership, watcher: Watcher) -> None:
        self.name = membership.name
        self._watcher = watcher
        settings: ConsumerOptions = {
            "bootstrap_servers": bootstrap,
            "client_id": membership.name,
            "group_id": membership.group,
            "group_instance_id": membership.instance_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "max_poll_interval_ms": membership.rebalance_ms,
            "max_poll_records": POLL_RECORDS,
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 20,
        }
        if membership.protocol == "consumer":
            settings["group_protocol"] = "consumer"
        else:
            settings["partition_assignment_strategy"] = membership.assignors
            settings["session_timeout_ms"] = membership.session_ms
            settings["heartbeat_interval_ms"] = membership.heartbeat_ms
        self._consumer = Consumer(**settings)
        self._consumer.start()
        self._consumer.subscribe(membership.topics, listener=self)

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._watcher.assigned(self.name, [ReadPartition(*each) for each in partitions])

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._watcher.revoked(self.name, [ReadPartition(*each) for each in partitions])

    def poll(self) -> int:
        records = [got(one) for portion in self._consumer.poll(POLL_MS).values() for one in portion]
        self._watcher.consumed(self.name, records)
        return len(records)

    def commit(self, offsets: Mapping[ReadPartition, int]) -> None:
        try:
            self._consumer.commit(dict(offsets.items()))
        except KohortError as error:
            raise NotCommittedError(error, maybe=error.retriable) from error

    def committed(self, place: ReadPartition) -> int | None:
        (found,) = self._consumer.committed(place).values()
        return None if found is None else found.offset

    def pause(self, places: Iterable[ReadPartition]) -> None:
        self._consumer.pause(*places)

    def resume(self, places: Iterable[ReadPartition]) -> None:
        self._consumer.resume(*places)

    def close(self) -> None:
        self._consumer.close()


class Own(Confluent):
    """Kohort as a library; what it does not test here, another one does."""

    name = "own"

    def join(self, bootstrap: str, membership: Membership, watcher: Watcher) -> OwnMember:
        return OwnMember(bootstrap, membership, watcher)


def got(record: ConsumerRecord) -> Got:
    place = ReadPartition(record.topic, record.partition)
    return Got(place, record.offset, record.key, record.value, tuple(record.headers), record.timestamp)
