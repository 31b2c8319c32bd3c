"""What a shell has to do after ``Membership.handle`` or ``advance``, in the order given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from kohort.client.membership.commands import CallbackId, CommitId, FetchId, RequestId
from kohort.client.subscription import OffsetAndMetadata
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId, TopicName
from kohort.model.topics import TopicPartition


class Destination(Enum):
    """Where a request goes."""

    LEAST_LOADED = "any node, the least loaded one"
    COORDINATOR = "the node of the last ConnectCoordinator, on a connection of its own"


@dataclass(frozen=True, slots=True)
class CoordinatorNode:
    """The broker that coordinates the group."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``request`` and report its one ``ReplyReceived`` or ``RequestFailed``.

    Versions above ``highest`` need what a member does not have; a broker that has none from ``lowest`` on is
    reported as failed with an error that is not retriable. Requests to the coordinator stay in order.
    """

    request_id: RequestId
    destination: Destination
    request: Message
    timeout_ms: int
    lowest: int = 0
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectCoordinator:
    """Start connecting; report ``ConnectionLost`` if that fails, now or later."""

    node: CoordinatorNode


@dataclass(frozen=True, slots=True)
class DisconnectCoordinator:
    """Close the connection, unless it is closed. What was in flight has already been taken as lost."""

    node: CoordinatorNode


class CallbackKind(Enum):
    """The methods of a rebalance listener."""

    REVOKED = "on_partitions_revoked"
    ASSIGNED = "on_partitions_assigned"
    LOST = "on_partitions_lost"


@dataclass(frozen=True, slots=True)
class RunCallback:
    """Call the listener in the application's context, then report ``CallbackDone``; sorted partitions.

    Comes only out of Poll, Unsubscribe, Close and CallbackDone. Other commands may be handled meanwhile.
    """

    callback_id: CallbackId
    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Polled:
    """The turn of poll is over. ``active``: positions may be updated and fetches sent for new partitions."""

    active: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """The turn of poll is over: raise this from it. A later poll tries again."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class WakePoll:
    """If the application waits inside poll, let it take the next turn now."""


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Ask for these topics (None: for all), with the usual backoff, and report ``MetadataUpdated``."""

    topics: frozenset[TopicName] | None


@dataclass(frozen=True, slots=True)
class CommitDone:
    """A commit of the application is over; in order of completion. Its callback runs in the user's thread."""

    commit_id: CommitId
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    error: KohortError | None = None


@dataclass(frozen=True, slots=True)
class CommittedFetched:
    """What the group has committed, None where it has nothing; or why that cannot be said."""

    fetch_id: FetchId
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    error: KohortError | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The subscription is gone; ``error`` is what a callback raised."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """The member is gone: wait for what is in flight, then close connections. ``error``: the first one."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """A line for the log."""

    text: str
    is_warning: bool = False


Effect: TypeAlias = (
    Send
    | ConnectCoordinator
    | DisconnectCoordinator
    | RunCallback
    | Polled
    | Raised
    | WakePoll
    | RefreshMetadata
    | CommitDone
    | CommittedFetched
    | Unsubscribed
    | Closed
    | Noted
)


Partitions = tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Called inside poll, unsubscribe and close, in the application's own context; partitions are sorted.

    What a method raises is raised by poll when the rebalance step is done: a listener cannot veto. In the
    consumer protocol nothing is acknowledged then, and the member waits for another target.
    A class that has no ``on_partitions_lost`` hears of losses as of revocations.
    """

    def on_partitions_revoked(self, partitions: Partitions) -> object:
        """These go, and are still this consumer's: commit what was processed."""

    def on_partitions_assigned(self, partitions: Partitions) -> object:
        """These came (maybe none): seek, if reading starts elsewhere."""


def method_for(listener: RebalanceListener, kind: CallbackKind) -> Callable[[Partitions], object]:
    """The method of a listener that hears of ``kind``."""
    found = getattr(listener, kind.value, None)
    if found is None and kind is CallbackKind.LOST:
        return listener.on_partitions_revoked
    assert callable(found), f"a rebalance listener needs {kind.value}"
    method: Callable[[Partitions], object] = found
    return method
