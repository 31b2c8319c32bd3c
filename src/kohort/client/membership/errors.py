"""What a member tells its application when the group does not go on as expected.

KohortError
 ├── IllegalMemberStateError     a peer or a plug-in broke the rules: nothing to retry
 ├── CallbackFailedError         a rebalance listener raised; its error is the cause
 ├── CommitFailedError           the member is out: others may already process its partitions
 ├── RebalanceInProgressError    poll, then commit again
 ├── CommitTimeoutError          retried until there was no time left
 ├── OffsetFetchTimeoutError     the same for committed offsets
 ├── RetriableCommitFailedError  an asynchronous commit failed in a way that may pass
 ├── ConsumerGroupsNotServedError  group_protocol="consumer" needs other brokers
 └── BrokerError                 (kohort.client.errors) any other code of a broker
      ├── FencedInstanceIdError          another consumer runs with this group.instance.id
      ├── TopicAuthorizationFailedError  ... with the topics it is about
      └── CoordinatorNotFoundError       the lookup of the coordinator was refused for good
           └── CoordinatorDeniedError    ... because the user may not use the group
"""

from collections.abc import Iterable

from kohort.client.errors import BrokerError, GroupAuthorizationError, TopicAuthorizationError
from kohort.model.errors import ErrorCode, KohortError

STALLED_HINT = (
    "the time between polls was longer than max.poll.interval.ms: raise that setting, or process "
    "less at a time with a smaller max.poll.records"
)


class IllegalMemberStateError(KohortError):
    """The group protocol was broken by a broker, an assignor or another member."""


class CallbackFailedError(KohortError):
    """A rebalance listener raised. A classic member takes its assignment over all the same."""


class InterruptedCallbackError(Exception):
    """A wakeup came out of a callback: it goes to the application as it is, at once."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class ConsumerGroupsNotServedError(KohortError):
    """The coordinator does not serve groups of the consumer protocol."""

    def __init__(self, group_id: str, where: str) -> None:
        super().__init__(
            f"cannot join group {group_id!r} with group.protocol=consumer: {where} does not serve groups of "
            "this protocol [UNSUPPORTED_VERSION]",
            hint="set group.protocol=classic, or use brokers that serve it (Kafka 4.0 or later)",
        )


class CommitFailedError(KohortError):
    """The commit comes from a member the group has expelled; what it processed may be processed again."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"cannot commit to group {group_id!r}: the group has rebalanced and given the partitions of "
            "this member to others",
            hint="either the time between polls was longer than max.poll.interval.ms (raise it, or process "
            "less at a time with a smaller max.poll.records), or no heartbeat arrived for session.timeout.ms",
        )


class RebalanceInProgressError(KohortError):
    """The commit came while the group rebalances; the member is still in it."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"cannot commit to group {group_id!r}: it is rebalancing",
            hint="call poll() to take part in the rebalance, then commit what is still assigned",
        )


class CommitTimeoutError(KohortError):
    """No attempt to commit succeeded in time; the last failure is the cause."""

    def __init__(self, group_id: str, last: KohortError | None = None) -> None:
        super().__init__(
            f"committing to group {group_id!r} did not succeed in time{_because(last)}",
            hint="the coordinator may be moving or overloaded: see its log, or raise default.api.timeout.ms",
            retriable=True,
        )


class OffsetFetchTimeoutError(KohortError):
    """No attempt to learn the committed offsets succeeded in time; the last failure is the cause."""

    def __init__(self, group_id: str, last: KohortError | None = None) -> None:
        super().__init__(
            f"fetching the committed offsets of group {group_id!r} did not succeed in time{_because(last)}",
            hint="the coordinator may be moving or overloaded: see its log, or raise default.api.timeout.ms",
            retriable=True,
        )


def _because(last: KohortError | None) -> str:
    return f": {last.args[0]}" if last is not None else ""


class RetriableCommitFailedError(KohortError):
    """An asynchronous commit failed in a way that may pass. Not repeated: a newer one may be on its way."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"an asynchronous commit to group {group_id!r} failed",
            hint="the next commit of a later position makes up for it",
            retriable=True,
        )


class FencedInstanceIdError(BrokerError):
    """Another consumer has joined with this group.instance.id."""

    def __init__(self, group_id: str, instance_id: str | None) -> None:
        super().__init__(
            ErrorCode.FENCED_INSTANCE_ID,
            f"stay in group {group_id!r}",
            f"another consumer runs with group.instance.id {instance_id!r}",
        )
        self.hint = "give every running consumer a group.instance.id of its own"


class TopicAuthorizationFailedError(TopicAuthorizationError):
    """Some topics of a request may not be used."""

    def __init__(self, what: str, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        super().__init__(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, what, f"not allowed for {', '.join(sorted(self.topics))}"
        )


class CoordinatorNotFoundError(BrokerError):
    """No broker will coordinate this group for this client."""


class CoordinatorDeniedError(CoordinatorNotFoundError, GroupAuthorizationError):
    """The user may not use the group."""
