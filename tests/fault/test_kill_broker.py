"""The broker's process is killed under load: what it had acknowledged is there when it is back."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.libraries import Got  # noqa: E402 (needs the path above)
from tests.clients.loads import AiokafkaLoad, ConfluentLoad, KafkaPythonLoad, Load  # noqa: E402 (same)
from tests.clients.node import Node  # noqa: E402 (same)
from tests.clients.with_aiokafka import LoopThread  # noqa: E402 (same)
from tests.clients.with_confluent import Confluent  # noqa: E402 (same)
from tests.clients.with_kafka_python import lost_sockets_collected  # noqa: E402 (same)

# See lost_sockets_collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.usefixtures("_collect_lost_sockets"),
]
ROUNDS = pytest.mark.parametrize(
    "rounds", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])]
)
BETWEEN_KILLS = 400  # acknowledgements


@pytest.fixture
def _collect_lost_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with lost_sockets_collected(caplog):
        yield


@pytest.fixture
def aio() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.stop()


@ROUNDS
@pytest.mark.slow
def test_no_acknowledged_record_is_missing_after_kills(tmp_path: Path, aio: LoopThread, rounds: int) -> None:
    with Node(tmp_path) as node:
        loads: list[Load] = [
            ConfluentLoad(node.bootstrap, "plain", idempotent=False),
            ConfluentLoad(node.bootstrap, "idempotent", idempotent=True, codec="lz4"),
            KafkaPythonLoad(node.bootstrap, "kafka-python"),
            AiokafkaLoad(node.bootstrap, "aiokafka", aio),
        ]
        with Producing(loads) as producing:
            for _ in range(rounds):
                producing.wait_for(BETWEEN_KILLS)
                node.kill()
                node.start()
            producing.wait_for(BETWEEN_KILLS)
        for load in loads:
            load.finish()
            check(load, read_all(node, load), repeats=load.topic == "plain")


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


def read_all(node: Node, load: Load) -> list[Got]:
    return Confluent().read(node.bootstrap, load.topic, 1, max(load.acknowledged) + 1)


def check(load: Load, records: list[Got], *, repeats: bool) -> None:
    """Offsets have no gap, every acknowledged value is where it was said to be, in order and once."""
    assert [record.offset for record in records] == list(range(len(records)))
    stored = {record.offset: record.value for record in records}
    assert load.acknowledged.items() <= stored.items()
    assert not load.refused, load.refused[:3]
    if not repeats:
        values = [record.value or b"" for record in records]
        assert values == sorted(set(values)), "an idempotent producer's retry was stored twice"
