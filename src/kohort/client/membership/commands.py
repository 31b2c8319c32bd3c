"""What a shell feeds into ``Membership.handle``: calls of the application, and what the network brought.

Ids of callbacks and requests are those of the effects they answer; ids of commits and fetches are the
shell's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType, TypeAlias

from kohort.client.membership.state import ClusterTopics
from kohort.client.subscription import OffsetAndMetadata
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
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
class SubscriptionChanged:
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
    """The connection to the coordinator could not be made, or ended. Its requests need not be reported."""


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
    | SubscriptionChanged
    | EnforceRebalance
    | Unsubscribe
    | Close
    | ReplyReceived
    | RequestFailed
    | ConnectionLost
    | MetadataUpdated
)
