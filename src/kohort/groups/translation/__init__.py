"""Between the messages of the wire and the commands and replies of the core: pure.

``join_command(request, …)`` makes the command of a JoinGroup, ``join_response(reply, …)`` the message of its
reply, and so for each API of groups. Where a message names many groups or partitions there is a function for
one of them, so that a broker may do other work in between. The broker uses them, and so does everything else
that speaks to a shard in messages.
"""

from typing import Protocol

from kohort.model.ids import InstanceId


class RequestSender(Protocol):
    """Who sends a request, and in which version. ``client_host`` has a leading slash, as Kafka stores it."""

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...


def instance_id(given: str | None) -> InstanceId | None:
    return None if given is None else InstanceId(given)
