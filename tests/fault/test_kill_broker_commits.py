"""The broker's process is killed under commits: what it had acknowledged stands, and nothing goes back."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.libraries import Production, Sample  # noqa: E402 (needs the path above)
from tests.clients.node import Node  # noqa: E402 (same)
from tests.clients.under_faults import COMMITTED, Committer  # noqa: E402 (same)
from tests.clients.with_confluent import Confluent  # noqa: E402 (same)
from tests.clients.with_kafka_python import lost_sockets_collected  # noqa: E402 (same)

# See lost_sockets_collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.usefixtures("_collect_lost_sockets"),
]
GROUPS = 4
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
        Confluent().produce(node.bootstrap, COMMITTED.topic, [Sample(0, None, b"x", (), 0)], Production())
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
