"""For all tests."""

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A test may take 120 s (``timeout`` in pyproject.toml); what it leaves behind, this much to go away.
_TEARDOWN_S = 120
_STDERR = pytest.StashKey[int]()

# How long an example takes says more about the machine than about the code.
settings.register_profile("kohort", deadline=None)
settings.load_profile("kohort")

# Who is started in the background ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)  # tests run with their output captured


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first, for they take longest: what comes last must not keep one core waiting."""
    items.sort(key=lambda item: "/tests/spark/" not in item.path.as_posix())


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
