"""Ports that stay one's own while there is no listener."""

import socket
import sys
from types import TracebackType
from typing import Self


class HeldPort:
    """A free port. No other caller gets it until ``close``; who connects and finds no listener is refused.

    A port that is only remembered may become the own port of any client on the machine before the test
    listens there again. Who listens needs SO_REUSEADDR, as servers of asyncio, uvloop and Java have it. Only
    Linux shares ports this way: elsewhere it was merely free a moment ago.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
