"""A loop on a thread of its own, and the way back."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kohort.client.loop_thread import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread("test")
    yield made
    made.stop()


def test_work_runs_there_and_its_calls_here(loop: LoopThread) -> None:
    async def work() -> tuple[int, object]:
        return threading.get_ident(), await loop.invoke(threading.get_ident)

    there, here = loop.run(work())
    assert there != here == threading.get_ident()


def test_a_call_may_run_more_work(loop: LoopThread) -> None:
    async def inner() -> str:
        return f"inner, and {await loop.invoke(lambda: 'back')}"

    async def outer() -> object:
        return await loop.invoke(lambda: loop.run(inner()))

    assert loop.run(outer()) == "inner, and back"


def test_what_work_and_calls_raise_comes_out(loop: LoopThread) -> None:
    def fail() -> None:
        raise ValueError("here")

    async def work() -> None:
        with pytest.raises(ValueError, match="here"):
            await loop.invoke(fail)
        raise KeyError("there")

    with pytest.raises(KeyError, match="there"):
        loop.run(work())


def test_an_interrupt_of_a_call_cancels_the_work(loop: LoopThread) -> None:
    ended = threading.Event()

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await loop.invoke(interrupt)
        except asyncio.CancelledError:
            ended.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert ended.wait(60)


def test_anybody_may_call_without_waiting(loop: LoopThread) -> None:
    called = threading.Event()
    loop.call_soon(called.set)
    assert called.wait(60)


def test_what_an_interrupt_left_running_has_ended_when_the_loop_is_stopped() -> None:
    loop = LoopThread("test")
    steps: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await loop.invoke(interrupt)
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            steps.append("said goodbye")

    async def for_ever() -> None:
        await asyncio.Event().wait()

    left_behind = loop.submit(for_ever())
    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    loop.stop()
    assert steps == ["said goodbye"]
    assert left_behind.cancelled()
