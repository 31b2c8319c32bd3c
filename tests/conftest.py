"""For all tests."""

import signal

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("kohort", deadline=None)
settings.load_profile("kohort")

# Who is started in the background ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests first, for they take longest: what comes last must not keep one core waiting."""
    items.sort(key=lambda item: "/tests/spark/" not in item.path.as_posix())
