"""``kohort.spark.session()``: a Spark session that works where Python does, for notebooks, jobs and tests."""

import os
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from kohort.spark.environment import (
    JAVA_OPTIONS,
    ON_ALL_CORES,
    TIME_ZONE,
    MissingSparkError,
    is_local,
    set_variables,
    settings,
    with_retries,
)

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql import SparkSession

# For tests: a small JVM that starts soon and gives each query as little to do as possible.
TEST_CONF: Mapping[str, str] = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "2",
        "spark.sql.adaptive.enabled": "false",
        # A few rows are over before the code that would be compiled for them is ready.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.pollingDelay": "1ms",
        JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m",
    }
)

_NOTHING: Mapping[str, str] = MappingProxyType({})


def session(
    app: str = "kohort", *, master: str | None = None, conf: Mapping[str, str] = _NOTHING
) -> "SparkSession":
    """The running session with ``conf`` applied, or a new one.

    In a job that was submitted, master and settings are those of the submission, ``conf`` on top. Elsewhere
    Spark is started here: on all cores of this machine unless ``master`` names another place, with a Java
    that fits, this Python for the workers, and the settings of ``environment.settings`` under ``conf``.
    Executors in other processes get Kohort's code.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingSparkError("pyspark") from error
    builder = SparkSession.Builder().appName(app)
    if SparkSession.getActiveSession() is None and not _was_submitted():
        master = with_retries(master or ON_ALL_CORES)
        set_variables(master)
        conf = settings(master, conf)
    if master is not None:
        builder = builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not spark.sparkContext.getConf().contains(TIME_ZONE) and TIME_ZONE not in conf:
        spark.conf.set(TIME_ZONE, "UTC")
    if not is_local(str(spark.sparkContext.master)):
        _ship(spark)
    return spark


def is_running() -> bool:
    """Whether this process has a session already; without pyspark it has none."""
    pyspark = sys.modules.get("pyspark.sql")
    return pyspark is not None and pyspark.SparkSession.getActiveSession() is not None


def warm_up(spark: "SparkSession") -> None:
    """Start the Python workers and let them load what reading needs: seconds on a busy machine.

    For a query that is about to join a group: the partitions it takes would wait unread for so long.
    """
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).mapInArrow(_load_all, "id bigint").count()


def _load_all(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import kohort.client.columnar.portions
    import kohort.spark.tasks  # noqa: F401  # loading is all there is to do

    yield from batches


def _was_submitted() -> bool:
    """Whether spark-submit has started this process: the JVM is there before Python."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _ship(spark: "SparkSession") -> None:
    """Send our code to the executors, unless the submission has done so."""
    from kohort.spark.shipping import archive

    context = spark.sparkContext
    packed = archive()
    if packed.name not in {os.path.basename(path) for path in context.listFiles}:
        context.addPyFile(str(packed))
