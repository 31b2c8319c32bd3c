"""Producers and committers that go on whatever happens to the brokers, and what must hold afterwards."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.clients.libraries import Place
from tests.clients.loads import Load
from tests.clients.with_confluent import Confluent, settings
from tests.clients.with_kafka_python import kafka
from tests.clients.with_kafka_python import settings as kafka_python_settings

COMMITTED = Place("work", 0)


class Producing:
    """Keeps all producers busy, on a thread of its own, whatever happens to the broker."""

    def __init__(self, loads: list[Load]) -> None:
        self._loads = loads
        self._progress = threading.Condition()
        self._stopping = False
        self._executor = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._work = self._executor.submit(self._go_on)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping = True
        self._executor.shutdown()

    def wait_for(self, count: int) -> None:
        """Until each producer got ``count`` more acknowledgements."""
        goals = {load.topic: len(load.acknowledged) + count for load in self._loads}

        def reached() -> bool:
            return all(len(load.acknowledged) >= goals[load.topic] for load in self._loads)

        with self._progress:
            done = self._progress.wait_for(lambda: reached() or self._work.done(), 60)
        state = {load.topic: (len(load.acknowledged), load.refused[:1]) for load in self._loads}
        assert done, f"wanted {goals}, have {state}"
        if self._work.done():
            self._work.result()

    def _go_on(self) -> None:
        while not self._stopping:
            for load in self._loads:
                load.go_on()
            with self._progress:
                self._progress.notify_all()


def check(load: Load, bootstrap: str, *, repeats: bool) -> None:
    """Offsets have no gap, every acknowledged value is where it was said to be, in order and once."""
    records = Confluent().read(bootstrap, load.topic, 1, max(load.acknowledged) + 1)
    assert [record.offset for record in records] == list(range(len(records)))
    stored = {record.offset: record.value for record in records}
    assert load.acknowledged.items() <= stored.items()
    assert not load.refused, load.refused[:3]
    if not repeats:
        values = [record.value or b"" for record in records]
        assert values == sorted(set(values)), "an idempotent producer's retry was stored twice"


class Committer:
    """Commits one offset after the other for a group of its own, and reads them from another client."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self.acknowledged = 0
        self.attempted = 0
        self._bootstrap = bootstrap
        self._progress = threading.Condition()
        self._stopping = False
        self._executor = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._work = self._executor.submit(self._commit_all_the_time)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping = True
        self._executor.shutdown()

    def wait_for(self, count: int) -> None:
        """Until ``count`` more commits were acknowledged."""
        goal = self.acknowledged + count
        with self._progress:
            done = self._progress.wait_for(lambda: self.acknowledged >= goal or self._work.done(), 60)
        assert done, f"{self.group} is at {self.acknowledged} and wants to be at {goal}"
        if self._work.done():
            self._work.result()

    def check(self) -> None:
        """What another client reads is at least what was acknowledged before it asked."""
        expected = self.acknowledged
        reader = kafka.KafkaConsumer(**kafka_python_settings(self._bootstrap, group_id=self.group))
        try:
            found = reader.committed(kafka.TopicPartition(*COMMITTED), timeout_ms=30_000)
        finally:
            reader.close()
        assert found is not None, f"{self.group}: no offset where {expected} was acknowledged"
        assert expected <= found <= self.attempted

    def _commit_all_the_time(self) -> None:
        consumer = Consumer(settings(self._bootstrap, group_id=self.group))
        try:
            while not self._stopping:
                self.attempted += 1
                if self._commit(consumer, self.attempted):
                    with self._progress:
                        self.acknowledged = self.attempted
                        self._progress.notify_all()
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer, offset: int) -> bool:
        try:
            (answer,) = consumer.commit(offsets=[TopicPartition(*COMMITTED, offset)], asynchronous=False)
        except KafkaException:
            return False  # the broker is away; whether it stored the offset nobody knows
        return answer.error is None
