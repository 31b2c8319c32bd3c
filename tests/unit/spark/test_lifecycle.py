"""How a stream's process ends."""

import signal
import sys
from collections.abc import Iterator
from types import ModuleType
from types import SimpleNamespace as Bag

import pytest

from kohort.spark.lifecycle import leave, stop_on_sigterm


@pytest.fixture(autouse=True)
def _same_handler_after() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_other_processes_keep_their_handler() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert not stop_on_sigterm()
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_runner_of_a_stream_unwinds_and_ignores_the_second_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = ModuleType("__main__")
    runner.__spec__ = Bag(name="pyspark.sql.streaming.python_streaming_source_runner")  # type: ignore[assignment]  # only its name is asked for
    monkeypatch.setitem(sys.modules, "__main__", runner)
    assert stop_on_sigterm()
    assert signal.getsignal(signal.SIGTERM) is leave
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
