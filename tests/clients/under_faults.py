"""Producers and committers that go on whatever happens to the brokers, and what must hold afterwards."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.clients.libraries import ReadPartition
from tests.clients.loads import Load
from tests.clients.waiting import Deadline
from tests.clients.with_confluent import Confluent, settings
from tests.clients.with_kafka_python import kafka
from tests.clients.with_kafka_python import settings as kafka_python_settings

COMMITTED = ReadPartition("work", 0)


class _Working(ABC):
    """Works on a thread of its own while the block lasts."""

    def __init__(self) -> None:
        self._progress = threading.Condition()
        self._stopping = False
        self._executor = ThreadPoolExecutor(1)

    @abstractmethod
    def _work(self) -> None:
        """Until ``_stopping``; notifies ``_progress``."""

    def __enter__(self) -> Self:
        self._working = self._executor.submit(self._work)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping = True
        self._executor.shutdown()

    def _wait(self, reached: Callable[[], bool], state: Callable[[], str]) -> None:
        """Until it is reached; an error of the thread is raised here."""
        with self._progress:
            done = self._progress.wait_for(lambda: reached() or self._working.done(), 60)
        assert done, state()
        if self._working.done():
            self._working.result()


class Producing(_Working):
    """Keeps all producers busy, whatever happens to the broker."""

    def __init__(self, loads: list[Load]) -> None:
        super().__init__()
        self._loads = loads

    def wait_for(self, count: int) -> None:
        """Until each producer got ``count`` more acknowledgements."""
        goals = {load.topic: len(load.acknowledged) + count for load in self._loads}

        def reached() -> bool:
            return all(len(load.acknowledged) >= goals[load.topic] for load in self._loads)

        def state() -> str:
            have = {load.topic: (len(load.acknowledged), load.refused[:1]) for load in self._loads}
            return f"wanted {goals}, have {have}"

        self._wait(reached, state)

    def _work(self) -> None:
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


class Committer(_Working):
    """Commits one offset after the other for a group of its own, and reads them from another client."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__()
        self.group = group
        self.acknowledged = 0
        self.attempted = 0
        self._bootstrap = bootstrap

    def wait_for(self, count: int) -> None:
        """Until ``count`` more commits were acknowledged."""
        goal = self.acknowledged + count
        self._wait(
            lambda: self.acknowledged >= goal,
            lambda: f"{self.group} is at {self.acknowledged} and wants to be at {goal}",
        )

    def check(self) -> None:
        """What another client reads is at least what was acknowledged before it asked."""
        expected = self.acknowledged
        deadline = Deadline(f"an answer about {self.group}")
        while True:
            try:
                found = self._read()
                break
            except (kafka.errors.KafkaConnectionError, kafka.errors.KafkaTimeoutError) as error:
                # Of a node whose lease has lapsed; on a busy machine of one after the other.
                deadline.check(str(error))
        assert found is not None, f"{self.group}: no offset where {expected} was acknowledged"
        assert expected <= found <= self.attempted

    def _read(self) -> int | None:
        reader = kafka.KafkaConsumer(**kafka_python_settings(self._bootstrap, group_id=self.group))
        try:
            found: int | None = reader.committed(kafka.TopicPartition(*COMMITTED), timeout_ms=30_000)
        finally:
            reader.close()
        return found

    def _work(self) -> None:
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
            return False  # the broker is away, and may have stored the offset or not
        return answer.error is None
