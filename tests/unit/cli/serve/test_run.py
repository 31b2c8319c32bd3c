"""Starting and stopping a process, as far as it can be tested inside one."""

import asyncio
import os
import signal

import pytest

from kohort.cli.running import FAILED, OK, USAGE, UsageError, guarded, on_loop, stop_on_signals, stop_within
from kohort.model.errors import KohortError


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("no such thing", hint="do that"), USAGE, "kohort: error: no such thing (do that)\n"),
        (KohortError("it broke"), FAILED, "kohort: error: it broke\n"),
        (
            PermissionError(13, "Permission denied", "/data"),
            FAILED,
            "kohort: error: Permission denied: /data",
        ),
        (OSError("odd"), FAILED, "kohort: error: odd ("),
        (MemoryError(), FAILED, "kohort: error: out of memory ("),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, text: str
) -> None:
    def fail() -> int:
        raise error

    assert guarded(fail) == code
    said = capsys.readouterr()
    assert said.err.startswith(text)
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_pipe_that_was_closed_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hushed: list[bool] = []
    monkeypatch.setattr("kohort.cli.running.stop_printing", lambda: hushed.append(True))

    def fail() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    assert guarded(fail) == OK
    assert hushed == [True]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_to_stop_and_the_second_does_not_ask(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    left: list[int] = []

    async def story() -> int:
        second = asyncio.Event()

        def leave(code: int) -> None:
            left.append(code)
            second.set()

        monkeypatch.setattr(os, "_exit", leave)
        stopping = stop_on_signals()
        os.kill(os.getpid(), number)
        await stopping.wait()
        assert left == []
        os.kill(os.getpid(), number)
        await second.wait()
        return OK

    assert on_loop(story()) == OK
    assert left == [128 + number]


def test_what_does_not_stop_is_given_up() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def at_once() -> None:
        return None

    assert asyncio.run(stop_within(0.001, never)) == FAILED
    assert asyncio.run(stop_within(5, at_once)) == OK


def test_the_loop_is_uvloop_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def which() -> int:
        return int(isinstance(asyncio.get_running_loop(), uvloop.Loop))

    assert on_loop(which()) == 1


def test_without_uvloop_it_is_asyncios_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)

    async def which() -> int:
        return int(isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop))

    assert on_loop(which()) == 1
