"""``kohort serve``: one broker in the foreground, until a signal."""

import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from kohort.cli.limits import raise_file_limit
from kohort.cli.screen import stop_printing
from kohort.cli.serve_options import ServeOptions, UsageError, broker_settings, parse
from kohort.model.errors import KohortError

if TYPE_CHECKING:
    import asyncio

    from kohort.broker.settings import Settings

STOP_SECONDS = 10.0  # it takes less than 2; only a machine with much else to do needs more for a clean end
OK, FAILED, USAGE = 0, 1, 2
# Requests leave next to no cycles behind; to look for some after every 700 objects took a tenth of the time.
_COLLECT_AFTER = (10_000, 20, 20)


def serve(arguments: Sequence[str]) -> int:
    """Run until stopped; the exit code. Whatever goes wrong is one line on stderr."""
    return guarded(lambda: _serve(parse(arguments)))


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
    print(f"kohort: error: {error}", file=sys.stderr)
    return code


def _serve(options: ServeOptions) -> int:
    from kohort.cli.logs import log_to_stderr

    log_to_stderr(options.log_format, options.log_level)
    settings = broker_settings(options)
    raise_file_limit()
    return on_loop(_run(settings))


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


async def _run(settings: "Settings") -> int:
    import gc
    import logging

    from kohort.broker.server import Server

    stopping = stop_on_signals()
    server = Server(settings)
    await server.start()
    reload_on_hangup(server.reload_certificates)
    gc.freeze()  # what is loaded now stays: no collection has to look at it again
    gc.set_threshold(*_COLLECT_AFTER)
    for endpoint in server.broker.endpoints:
        print(f"kohort: listening on {endpoint}", flush=True)
    where = str(settings.data) if settings.data is not None else "from memory"
    if settings.cluster is not None:
        from kohort.log.postgres.connections import Database

        where = str(Database.parse(settings.cluster))
    logging.getLogger("kohort.serve").info("node %d serves %s", server.broker.node_id, where)
    await stopping.wait()
    return await stop_within(STOP_SECONDS, server.stop)


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


def reload_on_hangup(reload: Callable[[], None]) -> None:
    """SIGHUP, which ends a process by default, reads the certificates again."""
    import asyncio
    import signal

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


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
