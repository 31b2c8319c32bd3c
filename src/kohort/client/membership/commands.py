"""What goes into ``Membership.handle`` (commands) and what the shell has to do then, in order (effects)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NewType, TypeAlias

from kohort.client.membership.state import ClusterTopics
from kohort.client.subscription import OffsetAndMetadata, Partitions, RebalanceListener
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, NodeId, TopicName
from kohort.model.topics import TopicPartition

RequestId = NewType("RequestId", int)
CallbackId = NewType("CallbackId", int)
CommitId = NewType("CommitId", int)
FetchId = NewType("FetchId", int)

# --- what the application does ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Poll:
    """One turn of the application's ``poll``; answered by one ``Polled`` or ``Raised``.

    Restarts max.poll.interval.ms. Rebalances advance, and callbacks run, only here.
    """


@dataclass(frozen=True, slots=True)
class CallbackDone:
    """The listener has returned, or raised ``error``. ``interrupted``: it was a wakeup, not a failure."""

    callback_id: CallbackId
    error: BaseException | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit offsets, or (None) all valid positions; answered by one ``CommitDone``.

    With a deadline it is retried until then (commit_sync), without one there is one attempt (commit_async).
    """

    commit_id: CommitId
    offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    deadline: Instant | None = None


@dataclass(frozen=True, slots=True)
class AutoCommitIfDue:
    """``assign`` is about to replace the partitions: commit their positions if the interval is over."""


@dataclass(frozen=True, slots=True)
class FetchCommitted:
    """Ask what the group has committed; answered by one ``CommittedFetched``."""

    fetch_id: FetchId
    partitions: tuple[TopicPartition, ...]
    deadline: Instant


@dataclass(frozen=True, slots=True)
class SubscriptionReplaced:
    """``Subscriptions`` has another subscription; the next poll joins with it."""


@dataclass(frozen=True, slots=True)
class EnforceRebalance:
    """Join again at the next poll, though nothing changed."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Give everything back and leave; answered by one ``Unsubscribed``. Nothing is committed."""


@dataclass(frozen=True, slots=True)
class Close:
    """Commit (with auto-commit), give everything back and leave, by ``deadline``; answered by ``Closed``."""

    deadline: Instant


# --- what the network brings ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """The answer to a ``Send``; one that is not awaited any more is ignored."""

    request_id: RequestId
    response: Message


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer will come. A retriable error (disconnected, timed out) makes the coordinator unknown."""

    request_id: RequestId
    error: KohortError


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection to the coordinator could not be made, or ended. Its requests need not be reported.

    ``refusal``: why the client may not enter, which another try would not change.
    """

    refusal: KohortError | None = None


@dataclass(frozen=True, slots=True)
class MetadataUpdated:
    """The cluster's topics as last seen, whether or not anything changed."""

    topics: ClusterTopics


Command: TypeAlias = (
    Poll
    | CallbackDone
    | Commit
    | AutoCommitIfDue
    | FetchCommitted
    | SubscriptionReplaced
    | EnforceRebalance
    | Unsubscribe
    | Close
    | ReplyReceived
    | RequestFailed
    | ConnectionLost
    | MetadataUpdated
)


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


def method_for(listener: RebalanceListener, kind: CallbackKind) -> Callable[[Partitions], object]:
    """The method of a listener that hears of ``kind``."""
    found = getattr(listener, kind.value, None)
    if found is None and kind is CallbackKind.LOST:
        return listener.on_partitions_revoked
    assert callable(found), f"a rebalance listener needs {kind.value}"
    method: Callable[[Partitions], object] = found
    return method
