"""How every command runs: its exit code, its errors in one line, its loop, and the signals that end it."""

import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING

from kohort.cli.screen import note, stop_printing
from kohort.model.errors import KohortError

if TYPE_CHECKING:
    import asyncio

OK, FAILED, USAGE = 0, 1, 2


class UsageError(KohortError):
    """An option that cannot be used as it was given."""


def guarded(run: Callable[[], int]) -> int:
    """The exit code of ``run``, or of the error it ended with, reported in one line."""
    try:
        code = run()
        sys.stdout.flush()
    except UsageError as error:
        return report(error, USAGE)
    except KohortError as error:
        return report(error, FAILED)
    except BrokenPipeError:
        stop_printing()
        return OK
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        hint = "check the data directory and the address"
        return report(KohortError(f"{error.strerror or error}{where}", hint=hint), FAILED)
    except MemoryError:
        return report(KohortError("out of memory", hint="give the process more of it"), FAILED)
    return code


def report(error: KohortError, code: int) -> int:
    note(f"kohort: error: {error}")
    return code


def on_loop(work: Coroutine[None, None, int]) -> int:
    """Run ``work`` on uvloop where it is installed, else on asyncio's own loop."""
    import asyncio

    factory: Callable[[], asyncio.AbstractEventLoop] | None
    try:
        from uvloop import new_event_loop as factory
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def stop_on_signals() -> "asyncio.Event":
    """An event that SIGTERM or SIGINT sets; the next one ends the process at once."""
    import asyncio
    import os
    import signal

    stopping = asyncio.Event()

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    return stopping


async def stop_within(seconds: float, stop: Callable[[], Awaitable[None]]) -> int:
    """Stop, and give up waiting after a while: what is acknowledged is written in any case."""
    import asyncio
    import logging

    try:
        async with asyncio.timeout(seconds):
            await stop()
    except TimeoutError:
        logging.getLogger("kohort.serve").error("not stopped after %g s: giving up", seconds)
        return FAILED
    return OK
