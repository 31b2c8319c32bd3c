"""What can go wrong between a client and its brokers.

KohortError
 ├── AddressError           text that is no host:port
 ├── ClientClosedError      asked for something after closing
 ├── ConnectError           no broker answers at an address
 │    └── NoBrokerError     no broker answers at any bootstrap address
 ├── DisconnectedError      the connection ended while a reply was awaited
 ├── RequestTimeoutError    no reply in time; the connection is given up, for replies come in order
 ├── ApiNotServedError      the broker lacks the API, or has only versions we do not speak
 ├── SettingError           a setting that does not exist, or a value it cannot have
 ├── SecurityError          the client cannot enter: never tried again by itself
 │    ├── TlsError          the broker's certificate, its host name, or the TLS version is wrong
 │    └── AuthenticationError  the broker does not accept the log-in, or is not the right one
 └── BrokerError            the broker answered with an error code
      ├── UnknownTopicError    ... namely that there is no such topic
      └── AuthorizationError   ... namely that the user may not do this
           ├── TopicAuthorizationError
           ├── GroupAuthorizationError
           ├── ClusterAuthorizationError
           └── TransactionalIdAuthorizationError
"""

from collections.abc import Sequence

from kohort.client.addresses import Address
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode, KohortError
from kohort.wire.apis import ApiSpec

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`kohort topics list` shows what there is",
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
        self.name = known.name if known is not None else f"error {code}"
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


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerError unless ``code`` is that of success."""
    if code:
        raise BrokerError(code, what, message)
