"""One node as the sender sees it: a connection that may have to be opened, and what is under way on it."""

from dataclasses import dataclass

from kohort.client.connection import Connection


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
