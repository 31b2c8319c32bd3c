"""For all tests."""

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from kohort.log.postgres.connections import Database
    from kohort.testing.postgres import EmbeddedPostgres

# A test may take 120 s (``timeout`` in pyproject.toml); what it leaves behind, this much to go away.
_TEARDOWN_S = 120
_STDERR = pytest.StashKey[int]()

# Up to a minute each: they begin first, so that none of them is what the other workers wait for at the end.
# They need no foreign peers, which are fetched meanwhile.
_LONG = (
    "tests/interop/test_pythons.py",
    "tests/spark/test_churn.py",
    "tests/spark/test_clusters.py",
    "tests/spark/test_demo.py::test_the_tour",
    "tests/spark/test_pages.py::test_the_commands_that_start_spark_themselves_run",
    "tests/spark/test_submit.py::test_the_job_of_the_howto",
)

# Tests whose JVMs or Pythons are not those of the test's process: each may run anywhere.
_ELSEWHERE = (
    "tests/interop/test_pythons.py",
    "tests/spark/test_churn.py",
    "tests/spark/test_clusters.py",
    "tests/spark/test_demo.py",
    "tests/spark/test_pages.py::test_the_commands_that_start_spark_themselves_run",
    "tests/spark/test_submit.py",
    "tests/spark/test_wheel.py",
)

# How long an example takes says more about the machine than about the code.
settings.register_profile("kohort", deadline=None)
settings.load_profile("kohort")

# A JVM of a test is over before its second compiler, which costs a third of its time, would have paid off.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Who is started in the background ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_schemas = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator["EmbeddedPostgres"]:
    """One PostgreSQL for each process of tests."""
    from kohort.testing.postgres import EmbeddedPostgres

    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
def cluster_url(postgres: "EmbeddedPostgres") -> str:
    """An empty place for a cluster: a schema of its own."""
    return f"{postgres.url}?schema=test{next(_schemas)}"


@pytest.fixture
def database(cluster_url: str) -> "Database":
    """The same, as the storage has it."""
    from kohort.log.postgres.connections import Database

    return Database.parse(cluster_url)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)  # tests run with their output captured


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """A million objects that stay: no garbage collection looks at them, now or during a test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, then Spark's, then slow files: what comes last must not keep a core waiting."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def rank(item: pytest.Item) -> tuple[bool, bool, bool]:
        return not item.nodeid.startswith(_LONG), not _has_spark(item.nodeid), item.path not in slow

    items.sort(key=rank)


def _has_spark(nodeid: str) -> bool:
    return nodeid.startswith(("tests/spark/", "tests/interop/test_spark_"))


class _Schedule(LoadFileScheduling):
    """Files are given out whole, and all that share a Spark session together.

    A second session would be a second JVM that has to warm up, on cores that are both busy. What starts Spark
    by itself is given out test by test.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_ELSEWHERE):
            return nodeid
        return "the Spark session" if _has_spark(nodeid) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Schedule:
    return _Schedule(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A failed test must not hang afterwards.

    At a failure pytest and pytest-timeout stop their clocks for a debugger, so nothing bounds the teardown
    any more. This clock ends the worker with every stack shown; xdist names the test and starts another.
    """
    faulthandler.dump_traceback_later(_TEARDOWN_S, file=item.config.stash[_STDERR], exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell a failure when it happens: a run that is cut off shows no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED in {report.when}: {report.nodeid}", file=sys.__stderr__, flush=True)
