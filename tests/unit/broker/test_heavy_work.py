"""Steps: at once where there is one, in turns and threads where there are more."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from kohort.broker.heavy_work import HeavyWork, Steps

R = TypeVar("R")


def run(steps: Steps[int, R]) -> R:
    async def work() -> R:
        result = HeavyWork().run(steps)
        assert isinstance(result, Awaitable)
        return await result

    return asyncio.run(work())


def test_what_has_one_step_is_done_at_once() -> None:
    def steps(breaks: int) -> Steps[int, str]:
        for _ in range(breaks):
            yield None
        return "done"

    assert HeavyWork().run(steps(0)) == "done"


def test_others_have_their_turn_between_two_steps() -> None:
    seen: list[str] = []

    def steps() -> Steps[int, str]:
        for name in ("first", "second"):
            seen.append(name)
            asyncio.get_running_loop().call_soon(seen.append, "others")
            yield None
        return "done"

    assert run(steps()) == "done"
    assert seen == ["first", "others", "second", "others"]


def test_a_call_is_made_in_a_thread_and_its_result_is_sent_back() -> None:
    def steps() -> Steps[int, list[int | None]]:
        return [(yield threading.get_ident), (yield None), (yield threading.get_ident)]

    first, nothing, last = run(steps())
    assert nothing is None
    assert threading.get_ident() not in (first, last)


def test_what_a_call_raises_is_raised_in_the_steps() -> None:
    def refuse() -> int:
        raise LookupError("not here")

    def steps(call: Callable[[], int]) -> Steps[int, str]:
        try:
            yield call
        except LookupError as error:
            yield None
            return str(error)
        return "nothing was raised"

    assert run(steps(refuse)) == "not here"


def test_what_the_steps_raise_is_raised() -> None:
    def steps() -> Steps[int, None]:
        yield None
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        run(steps())


def test_steps_that_are_given_up_are_closed() -> None:
    closed: list[str] = []

    def steps() -> Steps[int, None]:
        try:
            while True:
                yield None
        finally:
            closed.append("now")

    async def give_up() -> None:
        result = HeavyWork().run(steps())
        assert isinstance(result, Awaitable)
        task = asyncio.ensure_future(result)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert closed == ["now"]
