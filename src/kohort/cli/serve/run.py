"""``kohort serve``: one broker in the foreground, until a signal."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kohort.cli.limits import raise_file_limit
from kohort.cli.running import OK, guarded, on_loop, stop_on_signals, stop_within
from kohort.cli.serve.options import ServeOptions, broker_settings, parse

if TYPE_CHECKING:
    import asyncio

    from kohort.broker.server import Server
    from kohort.broker.settings import Settings

STOP_SECONDS = 10.0  # it takes less than 2; only a machine with much else to do needs more for a clean end
# Requests leave next to no cycles behind; to look for some after every 700 objects took a tenth of the time.
# The second number is how many young collections come before one of their survivors: with 20 of them that one
# took 30 ms while a topic of 10,000 partitions was made.
COLLECT_AFTER = (10_000, 10, 40)


def serve(arguments: Sequence[str]) -> int:
    """Run until stopped; the exit code. Whatever goes wrong is one line on stderr."""
    return guarded(lambda: _serve(parse(arguments)))


def _serve(options: ServeOptions) -> int:
    from kohort.cli.logs import log_to_stderr

    log_to_stderr(options.log_format, options.log_level)
    settings = broker_settings(options)
    raise_file_limit()
    return on_loop(_run(settings))


async def _run(settings: "Settings") -> int:
    import gc
    import logging

    from kohort.broker.memory import show_limits
    from kohort.broker.server import Server

    stopping = stop_on_signals()
    server = Server(settings)
    if not await _is_started(server, stopping, may_give_up=settings.cluster is not None):
        return OK
    reload_on_hangup(server.reload_certificates)
    gc.freeze()  # what is loaded now stays: no collection has to look at it again
    gc.set_threshold(*COLLECT_AFTER)
    for endpoint in server.broker.endpoints:
        print(f"kohort: listening on {endpoint}", flush=True)
    where = str(settings.data) if settings.data is not None else "from memory"
    if settings.cluster is not None:
        from kohort.log.postgres.connections import Database

        where = str(Database.parse(settings.cluster))
    logger = logging.getLogger("kohort.serve")
    logger.info("node %d serves %s", server.broker.node_id, where)
    logger.info("memory: %s", show_limits(server.broker.configs))
    await stopping.wait()
    return await stop_within(STOP_SECONDS, server.stop)


async def _is_started(server: "Server", stopping: "asyncio.Event", *, may_give_up: bool) -> bool:
    """False after a signal meanwhile: a node of a cluster may wait for its number without end."""
    import asyncio

    starting = asyncio.ensure_future(server.start())
    signalled = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({starting, signalled} if may_give_up else {starting}, return_when="FIRST_COMPLETED")
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    signalled.cancel()
    if starting.cancelled():
        return False
    starting.result()
    return True


def reload_on_hangup(reload: Callable[[], None]) -> None:
    """SIGHUP, which ends a process by default, reads the certificates again."""
    import asyncio
    import signal

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
