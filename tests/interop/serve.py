"""Kohort's broker without its command line: ``python -m tests.interop.serve DATA [name=value …]``.

Prints where it listens, as ``kohort serve`` does, and runs until it is terminated.
"""

import asyncio
import signal
import sys
from pathlib import Path

from kohort.broker.server import Server
from kohort.broker.settings import Settings


async def serve(data: Path, overrides: dict[str, str]) -> None:
    """Serve on a free port of loopback until a signal comes."""
    server = Server(Settings(port=0, data=data, overrides=overrides))
    print(f"kohort: listening on {await server.start()}", flush=True)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()


def main() -> int:
    """Serve with the settings of the command line."""
    overrides = dict(pair.split("=", 1) for pair in sys.argv[2:])
    asyncio.run(serve(Path(sys.argv[1]), overrides))
    return 0


if __name__ == "__main__":
    sys.exit(main())
