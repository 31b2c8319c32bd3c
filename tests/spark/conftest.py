"""One Spark session for all tests of a process: its own JVM, its own directories, loopback only."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever comes first starts a JVM and Spark's Pythons: a minute each on a busy machine."""
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        if item.get_closest_marker("interop") and "spark" in getattr(item, "fixturenames", ()):
            # A process has one JVM, and one without Spark's connector is no use to the tests there.
            raise pytest.UsageError(f"{item.nodeid} must be in tests/interop, with another session")
        if not any(map(item.get_closest_marker, ("timeout", "interop", "soak"))):
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session on two cores with four attempts for a task, UTC, one shuffle partition."""
    from kohort.spark.sessions import TEST_CONF, session

    places = {
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
    }
    with pytest.MonkeyPatch.context() as environment:
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            environment.setenv(name, sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        started = session("tests", master="local[2,4]", conf={**TEST_CONF, **places})
        yield started
        started.stop()
