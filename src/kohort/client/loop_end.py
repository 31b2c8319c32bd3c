"""The end of an event loop that runs on a thread of its own."""

import asyncio
import threading
from contextlib import suppress

_PATIENCE_S = 5.0  # with what was cancelled before, and may have something to say goodbye to


def end_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Cancel what still runs on the loop, wait some seconds until it is gone, and end both.

    Whoever waits in another thread for something on the loop is told: nothing is left without an end.
    """
    asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _end_all() -> None:
    leaving = [task for task in _others() if task.cancelling()]
    if leaving:  # they may need the others for it
        await asyncio.wait(leaving, timeout=_PATIENCE_S)
    running = _others()
    for task in running:
        task.cancel()
    with suppress(TimeoutError):  # one that does not let itself be cancelled is left behind
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*running, return_exceptions=True)


def _others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}
