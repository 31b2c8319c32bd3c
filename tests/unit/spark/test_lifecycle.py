"""How a stream's process ends."""

import gc
import signal
import sys
from collections.abc import Iterator
from types import ModuleType
from types import SimpleNamespace as Bag

import pytest

from kohort.spark import lifecycle
from kohort.spark.lifecycle import leave, spare_the_collector, stop_on_sigterm


@pytest.fixture(autouse=True)
def _same_handler_after() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run_as(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = Bag(name=name)  # type: ignore[assignment]  # only its name is asked for
    monkeypatch.setitem(sys.modules, "__main__", main)


def test_other_processes_keep_their_handler() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert not stop_on_sigterm()
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_runner_of_a_stream_unwinds_and_ignores_the_second_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_as("pyspark.sql.streaming.python_streaming_source_runner", monkeypatch)
    assert stop_on_sigterm()
    assert signal.getsignal(signal.SIGTERM) is leave
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_worker_sets_aside_what_modules_brought_and_again_after_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    monkeypatch.setattr(lifecycle, "_seen_modules", 0)
    spare_the_collector()
    assert not calls, "this is no worker of Spark"
    run_as("pyspark.daemon", monkeypatch)
    spare_the_collector()
    spare_the_collector()
    assert len(calls) == 1
    monkeypatch.setitem(sys.modules, "loaded_by_a_task", ModuleType("loaded_by_a_task"))
    spare_the_collector()
    assert len(calls) == 2
