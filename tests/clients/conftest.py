"""Fixtures of the tests with client libraries."""

import gc
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.testing import Broker
from kohort.testing.plugin import Kohort

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.libraries import NAMES, Library  # noqa: E402 (needs the path above)
from tests.clients.with_aiokafka import Aiokafka, LoopThread  # noqa: E402 (same)
from tests.clients.with_confluent import Confluent  # noqa: E402 (same)
from tests.clients.with_confluent import logger as librdkafka  # noqa: E402 (same)
from tests.clients.with_kafka_python import KafkaPython  # noqa: E402 (same)


@pytest.fixture(scope="session")
def _group_broker() -> Iterator[Broker]:
    configs = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "offsets.topic.num.partitions": 5,
        "log.retention.check.interval.ms": 86_400_000,  # records here are older than a week
    }
    with Broker(configs=configs) as broker:
        yield broker


@pytest.fixture
def groups(_group_broker: Broker, request: pytest.FixtureRequest) -> Iterator[Kohort]:
    """A shared broker for groups: no initial delay, short sessions allowed."""
    yield Kohort(_group_broker, request.node.name)
    _group_broker.stop_intercepting()


@pytest.fixture(scope="session")
def aio() -> Iterator[LoopThread]:
    """The event loop aiokafka's clients live on."""
    loop = LoopThread()
    yield loop
    loop.stop()


@pytest.fixture(scope="session")
def libraries(aio: LoopThread) -> dict[str, Library]:
    """The client libraries by name."""
    every: tuple[Library, ...] = (Confluent(), KafkaPython(), Aiokafka(aio))
    return {library.name: library for library in every}


@pytest.fixture(params=NAMES)
def library(request: pytest.FixtureRequest, libraries: dict[str, Library]) -> Library:
    """Each client library in turn."""
    return libraries[request.param]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a busy machine kafka-python may lose sockets in any of these tests (``lost_sockets_collected``)."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _forget_lost_sockets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="kafka")


@pytest.fixture(autouse=True, scope="module")
def _collect_them_before_others_begin() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def protocol_errors() -> Iterator[list[str]]:
    """librdkafka does not raise on a reply it cannot read: it logs PROTOERR or PROTOUFLOW and asks again."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = record.getMessage()
            if line.startswith("PROTO"):
                lines.append(line)

    keep = Keep()
    librdkafka.addHandler(keep)
    yield lines
    librdkafka.removeHandler(keep)
    assert not lines, lines[0]
