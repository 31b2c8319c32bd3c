"""Fixtures of the tests with client libraries."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.testing import Broker
from kohort.testing.plugin import Kohort

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.libraries import NAMES, Library  # noqa: E402 (needs the path above)
from tests.clients.with_aiokafka import Aiokafka, LoopThread  # noqa: E402 (same)
from tests.clients.with_confluent import Confluent  # noqa: E402 (same)
from tests.clients.with_confluent import logger as librdkafka  # noqa: E402 (same)
from tests.clients.with_kafka_python import KafkaPython, lost_sockets_collected  # noqa: E402 (same)


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


@pytest.fixture
def _collect_lost_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with lost_sockets_collected(caplog):
        yield


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
