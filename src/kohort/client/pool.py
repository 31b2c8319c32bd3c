"""The open connections of a client, one for each node and purpose."""

import asyncio
from collections import defaultdict
from enum import Enum

from kohort.client.addresses import Address
from kohort.client.connection import Connection, Dial, open_connection
from kohort.client.errors import ClientClosedError, ConnectError
from kohort.client.metadata import Node
from kohort.client.settings import ClientOptions
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId


class Purpose(Enum):
    """Why a connection exists. A JoinGroup or a long poll blocks its connection: others must not wait."""

    GENERAL = "general"
    COORDINATOR = "coordinator"
    FETCH = "fetch"


class Pool:
    """Opens connections when first asked for, and again after they broke."""

    def __init__(self, options: ClientOptions, dial: Dial) -> None:
        self._options = options
        self._dial = dial
        self._open: dict[tuple[NodeId, Purpose], Connection] = {}
        self._bootstrap: Connection | None = None
        self._bootstrapping = asyncio.Lock()
        self._opening: defaultdict[tuple[NodeId, Purpose], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._is_closed = False

    async def to_node(self, node: Node, purpose: Purpose = Purpose.GENERAL) -> Connection:
        """A live connection; ConnectError says so when it is the advertised address that leads nowhere."""
        key = (node.node_id, purpose)
        async with self._opening[key]:  # of several who ask at once, one connects
            found = self._open.get(key)
            if found is not None and found.is_open and found.address == node.address:
                return found
            if found is not None:
                found.close()
            connection = self._adopted(node, purpose) or await self._connect(node)
            self._open[key] = connection
            self._close_if_late(connection)
            return connection

    def _adopted(self, node: Node, purpose: Purpose) -> Connection | None:
        """The bootstrap connection, if it turned out to lead to this node: saves a round trip."""
        found = self._bootstrap
        if found is None or not found.is_open or found.address != node.address:
            return None
        if purpose is not Purpose.GENERAL:
            return None
        self._bootstrap = None
        return found

    async def _connect(self, node: Node) -> Connection:
        try:
            return await open_connection(node.address, self._options, dial=self._dial)
        except ConnectError as error:
            raise ConnectError(
                f"broker {node.node_id} says it is at {node.address}: {error.args[0]}",
                hint="it must advertise an address that works from here (`kohort serve --advertise`)",
            ) from error

    async def bootstrap(self, address: Address) -> Connection:
        """A connection to an address of which only that is known; at most one is kept."""
        async with self._bootstrapping:
            found = self._bootstrap
            if found is not None and found.is_open and found.address == address:
                return found
            if found is not None:
                found.close()
            self._bootstrap = found = await open_connection(address, self._options, dial=self._dial)
            self._close_if_late(found)
            return found

    def live(self) -> Connection | None:
        """Any open connection that no long poll blocks."""
        general = (found for (_, purpose), found in self._open.items() if purpose is Purpose.GENERAL)
        candidates = [*general, *([self._bootstrap] if self._bootstrap is not None else [])]
        return next((found for found in candidates if found.is_open), None)

    def _close_if_late(self, connection: Connection) -> None:
        """A pool that was closed while a task connected, or waited for that, keeps nothing open."""
        if self._is_closed:
            connection.close()
            raise ClientClosedError(f"the client was closed while it connected to {connection.address}")

    def reopen(self) -> None:
        """Be of use again after ``close``."""
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        if self._bootstrap is not None:
            self._bootstrap.close()
            self._bootstrap = None


def reason(error: KohortError) -> str:
    """Why a connection failed, without the address it failed at."""
    return str(error.args[0]).rsplit(": ", 1)[-1]
