"""The services of ``kohort up``. Each starts, says where it is and what to do with it, and stops."""

import os
import shutil
import socket
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

from kohort.cli.limits import raise_file_limit
from kohort.cli.session import DEFAULT_BOOTSTRAP
from kohort.client.addresses import Address
from kohort.client.settings import ClientOptions

_PORTS_TO_TRY = 100
CLIENT = ClientOptions(client_id="kohort-up", connect_timeout_ms=2_000, api_timeout_ms=5_000)


class Row(NamedTuple):
    """One line of the screen: what runs, and where it is.

    ``kept``: the directory that stays; ``query``: a command that reads it.
    """

    what: str
    where: str
    kept: str = ""
    query: str = ""


class UpService(Protocol):
    """Something that runs as long as ``kohort up`` does."""

    async def start(self) -> list[Row]:
        """Start, and say what is where; raises KohortError. ``stop`` is only called after this."""

    async def stop(self) -> None: ...

    def suggestions(self) -> list[str]:
        """What to try next, in lines ready to be copied; headings start at the margin."""


class BrokerService:
    """The broker, in this process."""

    def __init__(self, host: str, port: int, data: str | None) -> None:
        from kohort.broker.server import Server
        from kohort.broker.settings import Settings

        raise_file_limit()
        self._data = None if data is None else Path(data)
        self._server = Server(Settings(host=host, port=port, data=self._data))
        self._address = Address(host, port)

    @property
    def address(self) -> Address:
        """Where it listens; the port is known once it has started."""
        return self._address

    async def start(self) -> list[Row]:
        self._address = Address(*await self._server.start())
        kept = "" if self._data is None else str(self._data.resolve())
        return [Row("broker", str(self._address)), Row("data", kept or "in memory, gone when it stops", kept)]

    async def stop(self) -> None:
        await self._server.stop()

    def suggestions(self) -> list[str]:
        kohort = own_command()
        bootstrap = str(self._address)
        export = [] if bootstrap == DEFAULT_BOOTSTRAP else [f"  export KOHORT_BOOTSTRAP={bootstrap}"]
        return [
            "In another terminal:",
            *export,
            f"  {kohort} topics create orders --partitions 3",
            f"  {kohort} produce orders --key-separator : alice:apples bob:pears",
            f"  {kohort} consume orders --group readers",
            f"  {kohort} groups list",
            "",
            "In Python, with any Kafka client (pip install confluent-kafka):",
            "  from confluent_kafka import Producer",
            f'  producer = Producer({{"bootstrap.servers": "{bootstrap}"}})',
            '  producer.produce("orders", b"plums"); producer.flush()',
        ]


def first_free_port(host: str, first: int) -> int:
    """``first``, or the next port without a listener; 0 (any) if a hundred are taken."""
    for port in range(first, first + _PORTS_TO_TRY):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    return 0


def own_command() -> str:
    """What to type to get this program: its name if the shell would find it, else its path from here."""
    if shutil.which("kohort"):
        return "kohort"
    beside = Path(sys.executable).with_name("kohort")
    return os.path.relpath(beside) if beside.exists() else f"{sys.executable} -m kohort.cli.main"
