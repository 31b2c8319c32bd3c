"""The broker's process is killed under commits: what it had acknowledged stands, and nothing goes back."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.libraries import Place, Production, Sample  # noqa: E402 (needs the path above)
from tests.clients.node import Node  # noqa: E402 (same)
from tests.clients.with_confluent import Confluent, settings  # noqa: E402 (same)
from tests.clients.with_kafka_python import kafka, lost_sockets_collected  # noqa: E402 (same)
from tests.clients.with_kafka_python import settings as kafka_python_settings  # noqa: E402 (same)

# See lost_sockets_collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.usefixtures("_collect_lost_sockets"),
]
GROUPS = 4
PLACE = Place("work", 0)
BETWEEN_KILLS = 40  # acknowledged commits of each group


@pytest.fixture
def _collect_lost_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with lost_sockets_collected(caplog):
        yield


@pytest.mark.parametrize(
    "rounds", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])]
)
@pytest.mark.slow
def test_no_acknowledged_commit_is_lost_after_kills(tmp_path: Path, rounds: int) -> None:
    with Node(tmp_path, {"offsets.topic.num.partitions": 2}) as node, ExitStack() as stack:
        Confluent().produce(node.bootstrap, PLACE.topic, [Sample(0, None, b"x", (), 0)], Production())
        committers = [
            stack.enter_context(Committer(node.bootstrap, f"group-{number}")) for number in range(GROUPS)
        ]
        for committer in committers:
            committer.wait_for(BETWEEN_KILLS)
        for _ in range(rounds):
            node.kill()
            node.start()
            # At once, while the broker may still be loading: not a moment in which it says "nothing".
            for committer in committers:
                committer.check()
            for committer in committers:
                committer.wait_for(BETWEEN_KILLS)


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
            found = reader.committed(kafka.TopicPartition(*PLACE), timeout_ms=30_000)
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
            (answer,) = consumer.commit(offsets=[TopicPartition(*PLACE, offset)], asynchronous=False)
        except KafkaException:
            return False  # the broker is away; whether it stored the offset nobody knows
        return answer.error is None
