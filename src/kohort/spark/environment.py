"""What a Spark driver needs around it: Java, Python, an address, settings. Imports no Spark."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from kohort.model.errors import KohortError
from kohort.spark.java import ensure_java

LOOPBACK = "127.0.0.1"
ON_ALL_CORES = "local[*]"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
TIME_ZONE = "spark.sql.session.timeZone"

_LOCAL = re.compile(r"local(?:\[([^,\]]+)(,[^\]]*)?\])?")
_ATTEMPTS = 4
_LOG_SETTINGS = "log4j2.properties"

_VARIABLES = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")


class MissingSparkError(KohortError):
    """Kohort is installed without what Spark needs."""

    def __init__(self, module: str) -> None:
        super().__init__(f"{module} is not installed", hint="pip install 'kohort[spark]'")


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return _LOCAL.fullmatch(master) is not None


def on_this_machine(master: str) -> bool:
    """Whether no other machine has to reach the driver; the processes of ``local-cluster`` are here, too."""
    return is_local(master) or master.startswith("local-cluster[")


def with_retries(master: str) -> str:
    """The same master where a failed task is tried again: ``local[2]`` alone means one attempt."""
    found = _LOCAL.fullmatch(master)
    if found is None or found[2]:
        return master
    return f"local[{found[1] or '1'},{_ATTEMPTS}]"


def variables(master: str, given: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """The environment variables Spark is to be started with; what the user has set stays, if it works.

    JAVA_HOME is missing where it must not be set: what was there does not work and the PATH has better.
    """
    changed = dict(given)
    ensure_java(cache, environ=changed)
    changed.setdefault("PYSPARK_PYTHON", sys.executable)
    changed.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if on_this_machine(master):
        changed.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return {name: changed[name] for name in _VARIABLES if name in changed}


def set_variables(master: str) -> None:
    """Give this process, and the JVM it will start, what ``variables`` says."""
    wanted = variables(master, os.environ)
    if "JAVA_HOME" not in wanted:
        os.environ.pop("JAVA_HOME", None)
    os.environ.update(wanted)


def settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings: ours where Spark's defaults are meant for a data centre, and then those given.

    Java options are joined, not replaced.
    """
    ours = {TIME_ZONE: "UTC"}
    if on_this_machine(master):
        ours |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": "4",
        }
    if is_local(master):
        ours["spark.driver.memory"] = "2g"  # for all tasks, too
    options = " ".join(filter(None, (_logging_option(), given.get(JAVA_OPTIONS, ""))))
    return ours | dict(given) | ({JAVA_OPTIONS: options} if options else {})


def _logging_option() -> str:
    """Fewer words at the start, unless the user has a say in it already."""
    theirs = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    ours = Path(__file__).with_name(_LOG_SETTINGS)
    if os.path.exists(os.path.join(theirs, _LOG_SETTINGS)) or not ours.is_file():
        return ""
    return f"-Dlog4j2.configurationFile={ours.as_uri()}"
