"""Cancel a call at every point where it gives way, one after another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any

_MOST = 200  # places a call may give way at


class Interrupted:
    """Awaits ``call``, and is cancelled where it gives way for the time number ``at``.

    At once, or ``late``: in the very turn that brings what was awaited.
    """

    def __init__(self, call: Coroutine[Any, Any, object], at: int, *, late: bool) -> None:
        self.has_come = False
        self._call = call
        self._at = at
        self._late = late

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._call.__await__()
        error: BaseException | None = None
        number = 0
        while True:
            try:
                awaited = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            if number == self._at:
                self._interrupt(awaited)
            number += 1
            error = None
            try:
                yield awaited
            except BaseException as thrown:
                error = thrown

    def _interrupt(self, awaited: asyncio.Future[object] | None) -> None:
        self.has_come = True
        task = asyncio.current_task()
        assert task is not None
        if self._late and awaited is not None:
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


async def every_interruption(
    prepare: Callable[[], Awaitable[Callable[[], Coroutine[Any, Any, object]]]],
) -> AsyncIterator[str]:
    """After each interruption of the call that ``prepare`` makes anew: where it was, for messages."""
    for late in (False, True):
        for at in range(_MOST):
            call = Interrupted((await prepare())(), at, late=late)
            task = asyncio.create_task(_wait(call))
            await asyncio.wait([task])
            if not call.has_come:
                break
            assert task.cancelled(), f"interruption {at} was forgotten: {task}"
            yield f"interrupted at {at}{', late' if late else ''}"
        else:
            raise AssertionError(f"the call gives way more than {_MOST} times")


async def _wait(call: Interrupted) -> object:
    return await call
