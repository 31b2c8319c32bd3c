"""One Spark session for all tests of a process: its own JVM, its own directories, loopback only."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
