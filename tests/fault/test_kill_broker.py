"""The broker's process is killed under load: what it had acknowledged is there when it is back."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.loads import AiokafkaLoad, ConfluentLoad, KafkaPythonLoad, Load  # noqa: E402 (needs the path above)
from tests.clients.node import Node  # noqa: E402 (same)
from tests.clients.under_faults import Producing, check  # noqa: E402 (same)
from tests.clients.with_aiokafka import LoopThread  # noqa: E402 (same)
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
            check(load, node.bootstrap, repeats=load.topic == "plain")
