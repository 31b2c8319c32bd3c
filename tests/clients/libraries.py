"""What the tests ask of a Kafka client library, whichever it is."""

import importlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

NAMES = ("confluent", "kafka-python", "aiokafka")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
POLL_SECONDS = 0.02  # how long one poll may wait for something to happen
POLL_RECORDS = 20

Untyped = Any  # an object of a library that has no types
Headers = tuple[tuple[str, bytes | None], ...]


class ReadPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Sample(NamedTuple):
    """A record to produce."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


class Got(NamedTuple):
    """A record as a consumer saw it."""

    place: ReadPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """How to produce."""

    codec: str = "none"
    acks: str = "all"  # "0", "1" or "all"
    idempotent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """How to be a member of a group. ``name`` is the client id and the member's name in the test."""

    name: str
    group: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...] = ("range",)
    instance_id: str | None = None
    session_ms: int = 10_000
    heartbeat_ms: int = 100
    rebalance_ms: int = 20_000
    protocol: str = "classic"  # or "consumer", in which the broker decides about sessions and assignors


class NotCommittedError(Exception):
    """A commit was refused, or nobody knows (``maybe``) because the connection broke."""

    def __init__(self, reason: object, *, maybe: bool) -> None:
        super().__init__(str(reason))
        self.maybe = maybe


class Watcher(Protocol):
    """Is told what happens to a member's partitions, on whatever thread its library uses for that."""

    def assigned(self, member: str, places: Iterable[ReadPartition]) -> None: ...

    def revoked(self, member: str, places: Iterable[ReadPartition]) -> None: ...

    def consumed(self, member: str, records: Sequence[Got]) -> None: ...


class Member(Protocol):
    """A consumer that joined a group. Driven by one thread."""

    def poll(self) -> int:
        """Let the library work for a moment; the watcher sees the records. Returns how many came."""
        ...

    def commit(self, offsets: Mapping[ReadPartition, int]) -> None:
        """Commit and wait for the answer; NotCommittedError if it is not a yes."""
        ...

    def committed(self, place: ReadPartition) -> int | None: ...

    def pause(self, places: Iterable[ReadPartition]) -> None: ...

    def resume(self, places: Iterable[ReadPartition]) -> None: ...

    def close(self) -> None:
        """Leave (a static member only goes away) without committing."""
        ...


class Library(Protocol):
    """One client library."""

    name: str

    def produce(self, bootstrap: str, topic: str, samples: Sequence[Sample], how: Production) -> list[int]:
        """Produce all, in order; the offsets the broker reported (-1 where acks=0 hides them)."""
        ...

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Got]:
        """Read ``count`` records from the beginning, without a group."""
        ...

    def join(self, bootstrap: str, membership: Membership, watcher: Watcher) -> Member: ...


def quietly(module: str) -> Untyped:
    """Import a client library that is neither typed nor free of deprecated calls at import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(module)
