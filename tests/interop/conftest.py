"""Fixtures of the interoperability tests: brokers, Kafka's tools and Spark, each started once for a run."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tools` and `tests` are no installed packages
    sys.path.insert(0, str(ROOT))

from tests.interop.peers import CLIENTS, Client  # noqa: E402 (needs the path above)
from tests.interop.targets import SETTINGS, Target, kohort_broker, kohort_missing, kohort_nodes  # noqa: E402 (same)
from tools.peers.fetch import available, jars  # noqa: E402 (same)
from tools.peers.kafka_broker import kafka_broker  # noqa: E402 (same)
from tools.peers.kafka_tools import ToolShell, tool_shell  # noqa: E402 (same)
from tools.peers.pins import Peer  # noqa: E402 (same)

StartTarget = Callable[[str], Target]


def need(peer: Peer) -> None:
    """Skip the calling test when the peer cannot be had on this machine, saying why.

    A peer that *can* be had but does not work is an error, never a skip: see ``available``.
    """
    reason = available(peer)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def start_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartTarget]:
    """Start a broker by name, or return it if it runs already; all stop with the session."""
    running: dict[str, Target] = {}
    with ExitStack() as stack:

        def start(name: str) -> Target:
            if name in running:
                return running[name]
            home = tmp_path_factory.mktemp(name)
            if name == "kafka":
                need(Peer.KAFKA)
                broker = stack.enter_context(kafka_broker(SETTINGS, home))
                running[name] = Target("kafka", broker.bootstrap, broker.data)
            else:
                missing = kohort_missing()
                if missing is not None:
                    pytest.skip(missing)
                broker_or_nodes = kohort_nodes() if name == "nodes" else kohort_broker(home)
                running[name] = stack.enter_context(broker_or_nodes)
            return running[name]

        yield start


@pytest.fixture(params=["kafka", "kohort"], scope="session")
def target(request: pytest.FixtureRequest, start_target: StartTarget) -> Target:
    """Each broker in turn."""
    return start_target(request.param)


@pytest.fixture(params=CLIENTS, ids=str, scope="session")
def client(request: pytest.FixtureRequest) -> Client:
    """Each client library in turn."""
    chosen: Client = request.param
    need(chosen.peer)
    return chosen


@pytest.fixture(scope="session")
def kafka_tools() -> Iterator[ToolShell]:
    """Kafka's command line tools."""
    need(Peer.KAFKA)
    with tool_shell() as shell:
        yield shell


@pytest.fixture(scope="session")
def fresh_name() -> Callable[[str], str]:
    """Names that no other test of this run uses."""
    used: dict[str, int] = {}

    def name(stem: str) -> str:
        used[stem] = used.get(stem, 0) + 1
        return f"{stem}-{used[stem]}"

    return name


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A Spark session that has Spark's own Kafka connector, ``.format("kafka")``, if it can be had."""
    from kohort.spark.sessions import TEST_CONF, session

    conf = {
        **TEST_CONF,
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
    }
    if available(Peer.SPARK_CONNECTOR) is None:
        connector = sorted(str(jar) for jar in jars(Peer.SPARK_CONNECTOR).glob("*.jar"))
        conf["spark.driver.extraClassPath"] = os.pathsep.join(connector)
    with pytest.MonkeyPatch.context() as environment:
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            environment.setenv(name, sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        started = session("interop", master="local[2,4]", conf=conf)
        yield started
        started.stop()
