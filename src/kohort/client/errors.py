"""What can go wrong between a client and its brokers, its group and its application.

KohortError
 ├── SettingError           a setting that does not exist, or a value it cannot have
 ├── ClientClosedError      the client has been closed
 ├── ConnectError           no broker answers at an address
 │    └── NoBrokerError     no broker answers at any bootstrap address
 ├── DisconnectedError      the connection ended while a reply was awaited
 ├── RequestTimeoutError    no reply in time; the connection is given up, for replies come in order
 ├── ApiNotServedError      the broker lacks the API, or has only versions we do not speak
 ├── SecurityError          the client cannot enter: never tried again by itself
 │    ├── TlsError          the broker's certificate, its host name, or the TLS version is wrong
 │    └── AuthenticationError  the broker does not accept the log-in, or is not the right one
 ├── BrokerError            the broker answered with an error code
 │    ├── UnknownTopicError    ... namely that there is no such topic
 │    ├── AuthorizationError   ... namely that the user may not do this
 │    │    ├── TopicAuthorizationError
 │    │    │    └── TopicAuthorizationFailedError  ... with the topics it is about
 │    │    ├── GroupAuthorizationError
 │    │    ├── ClusterAuthorizationError
 │    │    └── TransactionalIdAuthorizationError
 │    ├── FencedInstanceIdError     another consumer runs with this group.instance.id
 │    └── CoordinatorNotFoundError  the lookup of the coordinator was refused for good
 │         └── CoordinatorDeniedError  ... because the user may not use the group
 ├── of a consumer: WakeupError, ConsumerClosedError, ConcurrentUseError, NoGroupError, PositionTimeoutError
 ├── of a member:   IllegalMemberStateError, CallbackFailedError, CommitFailedError, RebalanceInProgressError,
 │                  CommitTimeoutError, OffsetFetchTimeoutError, RetriableCommitFailedError,
 │                  ConsumerGroupsNotServedError
 └── of a producer: ProducerClosedError, RecordTooLargeError, BufferFullError, DeliveryTimeoutError,
                    DoubtfulDeliveryError, WaitInCallbackError
"""

from collections.abc import Iterable, Sequence

from kohort.client.addresses import Address
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiSpec

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`kohort topics list` shows the topics",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or alter the topic that is there",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has 1 to 249 of a-z A-Z 0-9 . _ - and is not internal",
    ErrorCode.INVALID_REPLICATION_FACTOR: "it must be between 1 and the number of brokers",
    ErrorCode.INVALID_PARTITIONS: "partitions can only be added, and there must be at least one",
    ErrorCode.INVALID_CONFIG: "`kohort topics describe TOPIC --all-configs` shows the configs there are",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first, or wait until their sessions expire",
    ErrorCode.UNKNOWN_MEMBER_ID: "offsets can only be set from outside while the group has no members",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member still subscribes to the topic: stop it first",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the right to use this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for the right to use this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the right to administer this cluster",
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or send smaller records",
}


class SettingError(KohortError, ValueError):
    """A setting that does not exist, or a value it cannot have."""


class SecurityError(KohortError):
    """The client cannot enter the cluster with its settings; another try would fail as well."""


class TlsError(SecurityError):
    """No trusted TLS connection: certificate, host name, authority or TLS version."""


class AuthenticationError(SecurityError):
    """The broker does not accept the log-in, or could not prove that it knows the password."""


class ClientClosedError(KohortError):
    """The client has been closed; what was in flight then is not tried again."""


class ConnectError(KohortError):
    """No broker answers at an address; worth another try after a while."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint, retriable=True)


class NoBrokerError(ConnectError):
    """None of the addresses a client was given leads to a broker."""

    def __init__(self, addresses: Sequence[Address], reasons: Sequence[str]) -> None:
        super().__init__(
            f"cannot reach a broker at {', '.join(map(str, addresses))}: {'; '.join(dict.fromkeys(reasons))}",
            hint="start one with `kohort up`, or name the address of one that runs",
        )
        self.addresses = tuple(addresses)


class DisconnectedError(KohortError):
    """The connection ended; the request may or may not have been carried out."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, retriable=True)


class RequestTimeoutError(KohortError):
    """No reply in time; the request may or may not have been carried out."""

    def __init__(self, name: str, address: Address, seconds: float) -> None:
        super().__init__(
            f"{address} did not answer {name} within {seconds:g} s",
            hint="the broker may be overloaded or cut off: see its log, or raise request.timeout.ms",
            retriable=True,
        )


class ApiNotServedError(KohortError):
    """A request for which client and broker have no version in common."""

    def __init__(self, spec: ApiSpec, wanted: Versions, served: Versions | None, address: Address) -> None:
        theirs = "does not serve it" if served is None else f"serves versions {served}"
        super().__init__(
            f"{spec.name} (API {spec.key.value}) in version {wanted} is needed, and {address} {theirs}",
            hint="`kohort apis` shows what a broker serves; a newer one may serve it",
        )
        self.spec = spec
        self.served = served


class BrokerError(KohortError):
    """The broker refused ``what`` was asked (a verb phrase), with its code and its own words, if any.

    ``BrokerError(code, …)`` is an AuthorizationError for the codes of missing rights.
    """

    def __new__(cls, code: int, *_: object, **__: object) -> "BrokerError":
        return super().__new__(_BY_CODE.get(code, cls) if cls is BrokerError else cls)

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        known = _known(code)
        self.code = code
        self.name = code_name(code)
        self.what = what
        words = (message or "").strip().rstrip(".")
        if words == self.name:
            words = ""  # some brokers have no other
        super().__init__(
            f"cannot {what}: {words} [{self.name}]" if words else f"cannot {what}: {self.name}",
            hint=_HINTS.get(known, "") if known is not None else "",
            retriable=known is not None and known.retriable,
        )


class AuthorizationError(BrokerError):
    """The user who is logged in may not do this."""


class TopicAuthorizationError(AuthorizationError):
    """The user may not use this topic in this way."""


class GroupAuthorizationError(AuthorizationError):
    """The user may not use this group in this way."""


class ClusterAuthorizationError(AuthorizationError):
    """The user may not administer this cluster in this way."""


class TransactionalIdAuthorizationError(AuthorizationError):
    """The user may not use this transactional id."""


_BY_CODE: dict[int, type[AuthorizationError]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ClusterAuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TransactionalIdAuthorizationError,
}


class UnknownTopicError(BrokerError):
    """There is no topic of that name or no such partition of it, or the caller may not see it.

    Not retriable, though the code is: waiting for a topic to appear is a decision of the caller.
    """

    def __init__(self, topic: str, message: str = "there is no topic of this name") -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"use topic {topic!r}", message)
        self.topic = topic
        self.retriable = False


def _known(code: int) -> ErrorCode | None:
    try:
        return ErrorCode(code)
    except ValueError:
        return None  # a newer broker knows more of them


def code_name(code: int) -> str:
    """Kafka's name of an error code; its number where this version does not know it."""
    known = _known(code)
    return f"error {code}" if known is None else known.name


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerError unless ``code`` is that of success."""
    if code:
        raise BrokerError(code, what, message)


class WakeupError(KohortError):
    """``wakeup`` was called: the poll that was waiting, or the next one, ends here. Nothing is lost."""

    def __init__(self) -> None:
        super().__init__("the consumer was woken up")


class ConsumerClosedError(KohortError):
    """The consumer is closed, or was never started."""

    def __init__(self, message: str = "the consumer is closed") -> None:
        super().__init__(message, hint="use it inside a with block; a closed consumer is not opened again")


class ConcurrentUseError(KohortError):
    """A consumer is for one thread, or one task, at a time; only ``wakeup`` may come from another.

    Nor may a callback ("callback") begin what it is a part of.
    """

    def __init__(self, who: str) -> None:
        if who == "callback":
            super().__init__(
                "the consumer is in the middle of a call that waits for this callback",
                hint="poll, unsubscribe and close when the callback has returned",
            )
            return
        super().__init__(
            f"the consumer is being used by another {who}",
            hint=f"give each {who} a consumer of its own; they can share a group",
        )


class NoGroupError(KohortError):
    """The call needs a group, and the consumer was made without one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"cannot {what} without a group", hint="set group_id, or assign and seek by hand")


class PositionTimeoutError(KohortError):
    """It took too long to find out where a partition is read from."""

    def __init__(self, partition: object, millis: float) -> None:
        super().__init__(
            f"the position of {partition} was not known after {millis:g} ms",
            hint="is its leader there? else raise default.api.timeout.ms",
            retriable=True,
        )


STALLED_HINT = (
    "the time between polls was longer than max.poll.interval.ms: raise that setting, or process "
    "less at a time with a smaller max.poll.records"
)


class IllegalMemberStateError(KohortError):
    """The group protocol was broken by a broker, an assignor or another member."""


class CallbackFailedError(KohortError):
    """A rebalance listener raised. A classic member takes its assignment over all the same."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"a rebalance callback raised {error!r}")
        self.__cause__ = error


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
            hint="a later commit of a later position replaces it",
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


class ProducerClosedError(KohortError):
    """The producer is closed: nothing is sent any more."""


class RecordTooLargeError(KohortError):
    """One record that is larger than a whole request may be. Nothing was sent."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        super().__init__(
            f"a record of {size:,} bytes for topic {topic!r} is larger than max_request_size ({limit:,})",
            hint="raise max_request_size here and max.message.bytes of the topic, or send smaller records",
        )


class BufferFullError(KohortError):
    """The buffer stayed full for max_block_ms. Nothing was sent of this record."""

    def __init__(self, waited_ms: int, limit: int) -> None:
        super().__init__(
            f"no room for the record after {waited_ms:,} ms: {limit:,} bytes wait to be sent",
            hint="the brokers take records more slowly than they come; see max_buffered_bytes, max_block_ms",
            retriable=True,
        )


class DeliveryTimeoutError(KohortError):
    """The time of a record is over. Whether it was stored is not known if it was ever sent."""

    def __init__(
        self, partition: TopicPartition, waited_ms: int, attempts: int, last: KohortError | None
    ) -> None:
        sent = f"sent {attempts} times" if attempts > 1 else "sent once" if attempts else "never sent"
        why = f"; last: {last.args[0]}" if last is not None else ""
        super().__init__(
            f"records for {partition} were not acknowledged within {waited_ms:,} ms ({sent}){why}",
            hint="is the leader reachable? delivery_timeout_ms says how long to try",
        )
        self.partition = partition
        self.attempts = attempts


class DoubtfulDeliveryError(KohortError):
    """A batch whose answer was lost and that the broker forgot. Sent again, it might be there twice."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"records for {partition} may be stored or not: their acknowledgement was lost, and the broker "
            "has forgotten them",
            hint="look for them in the topic before you send them again; records after them are not affected",
        )
        self.partition = partition


class WaitInCallbackError(KohortError):
    """A callback of a future runs in the producer's own thread: it would wait for itself."""

    def __init__(self) -> None:
        super().__init__(
            "a callback cannot wait for the producer that runs it",
            hint="send from it without waiting, or let another thread flush, close and ask for results",
        )
