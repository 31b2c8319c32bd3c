"""One node as the sender sees it: a connection that may have to be opened, and what is under way on it."""

from dataclasses import dataclass

from kohort.client.connection import Connection
from kohort.wire.schema import Message


@dataclass(slots=True)
class Link:
    """``silent_until``: the broker asked for a break (KIP-219), in the sender's milliseconds."""

    connection: Connection | None = None
    in_flight: int = 0
    silent_until: float = 0.0

    def is_usable(self, now: float, most: int) -> bool:
        """Whether another request may be written now."""
        return self.is_connected and self.in_flight < most and self.silent_until <= now

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and self.connection.is_open


def post(connection: Connection, request: Message, highest: int | None) -> None:
    """Write a request that has no reply: Produce with acks=0. Raises as ``Connection.send`` does.

    A connection expects a reply to all it writes, and replies come in order: so the expectation that
    writing made, the newest one, is taken back.
    """
    assert request.api_key is not None
    awaited = connection._write(request, connection.version_of(request.api_key, highest))
    taken_back = connection._awaited.pop()
    assert taken_back is awaited, "nothing was written in between"
    awaited.reply.cancel()
