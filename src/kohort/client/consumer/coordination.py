"""The connection to the group's coordinator, and requests over it in the order they are made."""

import asyncio
from collections.abc import Callable

from kohort.client.addresses import Address
from kohort.client.cluster import Cluster, Role
from kohort.client.connection import Connection, Dial, open_connection
from kohort.client.errors import ApiNotServedError, DisconnectedError
from kohort.client.membership.effects import CoordinatorNode, Destination, Send
from kohort.codec.schema import Message, Versions
from kohort.model.errors import KohortError
from kohort.wire.apis import APIS


class CoordinatorLink:
    """A socket of its own: a fetch that waits for records must not delay a heartbeat."""

    def __init__(self, cluster: Cluster, dial: Dial, lost: Callable[[], None]) -> None:
        self._cluster = cluster
        self._dial = dial
        self._lost = lost
        self._opening: asyncio.Task[Connection] | None = None

    def connect(self, node: CoordinatorNode) -> None:
        """Begin to connect; ``lost`` is called if that fails."""
        self.close()
        address = Address(node.host, node.port)
        opening = asyncio.get_running_loop().create_task(
            open_connection(address, self._cluster.options, dial=self._dial)
        )
        self._opening = opening
        opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[Connection]) -> None:
        if opening.cancelled():
            return
        if opening.exception() is not None:
            if opening is self._opening:
                self._opening = None
                self._lost()
        elif opening is not self._opening:
            opening.result().close()  # given up while it was being opened

    def close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is None:
            return
        if not opening.done():
            opening.cancel()
        elif not opening.cancelled() and opening.exception() is None:
            opening.result().close()

    async def send(self, effect: Send) -> Message:
        """The reply. Raises KohortError, retriable if the way there is broken."""
        connection = await self._connection(effect.destination)
        api_key = effect.request.api_key
        assert api_key is not None
        version = connection.version_of(api_key, effect.highest)
        spec = APIS[api_key]
        if version < effect.lowest:
            wanted = Versions(effect.lowest, effect.highest or spec.versions.last)
            raise ApiNotServedError(spec, wanted, connection.api_versions[api_key], connection.address)
        return await connection.send(
            effect.request, spec.response_class, highest=effect.highest, timeout_ms=effect.timeout_ms
        )

    async def _connection(self, destination: Destination) -> Connection:
        if destination is Destination.LEAST_LOADED:
            return await self._cluster.connection(Role.ANY)
        opening = self._opening
        if opening is None:
            raise DisconnectedError("there is no connection to the coordinator")
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            assert waiting is not None
            if opening.cancelled() and not waiting.cancelling():
                raise DisconnectedError("the connection to the coordinator was given up") from None
            raise
        except KohortError as error:
            raise DisconnectedError(f"cannot reach the coordinator: {error}") from error
