"""The lease of a session: how long its node may answer, and which dead session it may bury (cluster 2.1).

A node renews its session and looks at all others in one statement. A ``Lease`` learns when that statement is
sent, answered or lost, and when time passes; what is to be done comes back as effects. It is a value: each
call returns the next one. All times are milliseconds by the node's own clock, which also runs while the
machine sleeps. They are never compared with a time of the database or of another node.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, NewType, TypeAlias

from kohort.model.errors import KohortError
from kohort.model.ids import Instant

SessionId = NewType("SessionId", int)  # one life of a node; never comes again

_NEVER = Instant(-1)
_RATE_MARGIN_MS = 50  # clocks of two nodes may differ by 2 % in rate


class LeaseSettingsError(KohortError):
    """Times that would let two nodes answer for one partition."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, and how often it is renewed."""

    lease_ms: int = 3_000
    renewal_ms: int = 500

    def __post_init__(self) -> None:
        if self.renewal_ms < 1 or self.window_ms + self.renewal_ms >= self.lease_ms:
            raise LeaseSettingsError(
                f"a lease of {self.lease_ms} ms cannot be renewed every {self.renewal_ms} ms: four fifths of"
                " the lease and one interval must be less than the lease. Choose a longer lease or a shorter"
                " interval."
            )

    @property
    def window_ms(self) -> int:
        """How long answers may leave after a renewal was sent."""
        return window_of(self.lease_ms)


def window_of(lease_ms: int) -> int:
    return lease_ms * 4 // 5


def watch_of(lease_ms: int) -> int:
    """How long a session must show no renewal before it may be buried: longer than it may answer."""
    return window_of(lease_ms) + _RATE_MARGIN_MS


class SeenSession(NamedTuple):
    """Another session as a poll shows it. ``rest_ms``: of its lease, by the clock of the database."""

    session: SessionId
    renewals: int
    lease_ms: int
    rest_ms: int

    @property
    def is_expired(self) -> bool:
        return self.rest_ms < 0


class Watch(NamedTuple):
    """A session shows this number of renewals since then; if it shows no other, it is buried at ``due``."""

    renewals: int
    since: Instant
    due: Instant


Watches: TypeAlias = tuple[tuple[SessionId, Watch], ...]

# --- effects ----------------------------------------------------------------------------------------


class Bury(NamedTuple):
    """Mark the session as dead, if it still has this number of renewals and has expired."""

    session: SessionId
    renewals: int


class Lapsed(NamedTuple):
    """The window has closed: keep everything, answer nothing, let no timer of a group fire."""


class Serving(NamedTuple):
    """The window is open again: members get their whole session timeouts, since they were not heard."""


class Fenced(NamedTuple):
    """This session is buried: drop everything and register a new one."""


class DataLost(NamedTuple):
    """The database forgot a renewal that it had confirmed: drop everything, and take it at a new epoch."""


Effect: TypeAlias = Bury | Lapsed | Serving | Fenced | DataLost


@dataclass(frozen=True, slots=True)
class Lease:
    """What a node knows of its session and of the others."""

    times: LeaseTimes
    renewals: int = 0  # of our own session, the last one that was confirmed
    sent_at: Instant | None = None  # of the renewal that is under way
    answers_until: Instant = _NEVER
    polled_at: Instant | None = None  # when the last poll was answered; None: nothing was seen since a break
    is_serving: bool = False
    is_over: bool = False  # fenced, data is lost, or the node has left
    watches: Watches = ()

    def may_answer(self, now: Instant) -> bool:
        """Whether an answer that was made from memory before ``now`` was looked at may leave."""
        return not self.is_over and now < self.answers_until

    def send(self, now: Instant) -> "Lease":
        """A renewal is about to be sent. ``now`` must be read before it is."""
        return replace(self, sent_at=now)

    def lose(self) -> "Lease":
        """The renewal was not answered, and its connection is given up: what was not seen is not watched."""
        return replace(self, sent_at=None, polled_at=None, watches=())

    def receive(
        self, renewals: int | None, others: Iterable[SeenSession], now: Instant
    ) -> tuple["Lease", list[Effect]]:
        """The renewal that was sent is answered. ``renewals`` of ``None``: our session is dead."""
        assert self.sent_at is not None, "a reply without a renewal"
        if renewals is None:
            return self.end(), [Fenced()]
        if renewals <= self.renewals:
            return self.end(), [DataLost()]
        watches, burials = self._watch(others, now)
        lease = replace(
            self,
            renewals=renewals,
            sent_at=None,
            answers_until=Instant(self.sent_at + self.times.window_ms),
            polled_at=now,
            watches=watches,
        )
        lease, effects = lease.tick(now)
        return lease, [*effects, *burials]

    def tick(self, now: Instant) -> tuple["Lease", list[Effect]]:
        """Time has passed: say when the window closes or opens."""
        may_answer = self.may_answer(now)
        if may_answer == self.is_serving or self.is_over:
            return self, []
        return replace(self, is_serving=may_answer), [Serving() if may_answer else Lapsed()]

    def next_poll(self, begun: Instant) -> Instant:
        """When to renew and look again after a poll that begun then: at once when a session may be buried."""
        due = [
            each.due for _, each in self.watches if self.polled_at is not None and each.due > self.polled_at
        ]
        return min([Instant(begun + self.times.renewal_ms), *due])

    def end(self) -> "Lease":
        """Nothing is answered any more."""
        return replace(self, sent_at=None, is_over=True, is_serving=False)

    def _watch(self, others: Iterable[SeenSession], now: Instant) -> tuple[Watches, list[Bury]]:
        return watch(self.watches, others, now, self.polled_at, 2 * self.times.renewal_ms)


def watch(
    before: Watches,
    others: Iterable[SeenSession],
    now: Instant,
    polled_at: Instant | None,
    longest_gap_ms: int,
) -> tuple[Watches, list[Bury]]:
    """Which sessions are watched after a look at them, and which of them may be buried.

    Time without sight does not count: after a break every watch begins again. ``polled_at`` is the time of
    the look before this one; ``None`` if nothing was seen since a break.
    """
    is_gap = polled_at is None or now - polled_at > longest_gap_ms
    known = {} if is_gap else dict(before)
    watches: list[tuple[SessionId, Watch]] = []
    burials: list[Bury] = []
    for other in others:
        found = known.get(other.session)
        since = found.since if found is not None and found.renewals == other.renewals else now
        watched_until = since + watch_of(other.lease_ms)
        due = Instant(max(watched_until, now + other.rest_ms + 1))
        watches.append((other.session, Watch(other.renewals, since, due)))
        if other.is_expired and now >= watched_until:
            burials.append(Bury(other.session, other.renewals))
    return tuple(watches), burials
