"""The lease and the fence as a model: an owner, a watcher, a database, and everything that may go wrong.

Messages take any time and arrive or not; connections break with their statement still running; each node may
stop at any moment; the clock of the database may be stepped. The leases are ``kohort.cluster.lease`` itself.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from kohort.cluster.lease import Bury, Effect, Lease, LeaseTimes, SeenSession, SessionId
from kohort.model.ids import Instant

TICK_MS = 100
TIMES = LeaseTimes(lease_ms=251, renewal_ms=50)  # the window is two ticks, the watch and the lease three
STEP_MS = 4 * TICK_MS  # how far the database's clock is stepped: further than a lease
OWNER, WATCHER = SessionId(1), SessionId(2)


class BrokenPromiseError(AssertionError):
    """A history that the rules must make impossible."""


@dataclass(frozen=True)
class Rules:
    """The protocol as it is written, or with one rule left out."""

    lease: type[Lease] = Lease
    compares_renewals: bool = True
    checks_leader: bool = True
    checks_chain: bool = True
    clock_steps: int = 0
    appends: int = 0
    losses: int = 1
    dies_at_any_time: bool = False  # writes must be safe without any clock


class Append(NamedTuple):
    """A batch on its way: who leads at which epoch, where it is to be stored, and what it is."""

    session: SessionId
    epoch: int
    base: int
    value: str


class State(NamedTuple):
    """Everything at one moment. Waiting messages are ``None``, not yet executed, or executed with a reply."""

    owner: Lease
    watcher: Lease
    time: int = 0
    clock_steps: int = 0
    # the database
    is_owner_dead: bool = False
    renewals: int = 1
    expires_at: int = TIMES.lease_ms
    leader: SessionId = OWNER
    epoch: int = 1
    batches: tuple[Append, ...] = ()
    # messages of the owner
    renewal: str = ""  # "", "sent", "done"
    renewal_reply: int | None = None
    running_renewals: int = 0  # their connection is lost
    append: Append | None = None
    append_reply: bool | None = None  # None: not executed
    running_appends: tuple[Append, ...] = ()
    is_unknown: bool = False  # the outcome of ``append``
    losses: int = 0
    # messages of the watcher
    watcher_renewals: int = 0
    poll: str = ""
    poll_reply: tuple[int, SeenSession | None] = (0, None)
    burial: Bury | None = None
    # what the nodes know
    owner_leads: bool = True
    acknowledged: int = 0  # appends of the owner
    watcher_knows_of_death: bool = False
    watcher_end: int | None = None  # it leads, and has loaded up to here
    has_watcher_answered: bool = False

    @property
    def now(self) -> Instant:
        return Instant(self.time * TICK_MS)

    @property
    def database_now(self) -> int:
        return self.now + self.clock_steps * STEP_MS


def start(rules: Rules) -> State:
    lease = rules.lease(TIMES)
    owner, _ = lease.send(Instant(0)).receive(1, (), Instant(0))
    return State(owner=owner, watcher=lease)


def steps(state: State, rules: Rules, ticks: int) -> Iterator[tuple[str, Callable[[], State]]]:
    """What may happen next."""
    if state.time < ticks:
        yield "tick", lambda: _tick(state)
    if state.clock_steps < rules.clock_steps:
        yield "database clock steps", lambda: state._replace(clock_steps=state.clock_steps + 1)
    yield from _owner_steps(state, rules)
    yield from _watcher_steps(state, rules)


def _tick(state: State) -> State:
    state = state._replace(time=state.time + 1)
    return state._replace(owner=state.owner.tick(state.now)[0], watcher=state.watcher.tick(state.now)[0])


# --- the owner ----------------------------------------------------------------------------------------


def _owner_steps(state: State, rules: Rules) -> Iterator[tuple[str, Callable[[], State]]]:
    may_renew = not rules.dies_at_any_time and not state.owner.is_over
    if may_renew and not state.renewal and state.owner.polled_at != state.now:
        yield "owner sends renewal", lambda: state._replace(renewal="sent", owner=state.owner.send(state.now))
    if state.renewal == "sent":
        yield "renewal is executed", lambda: _execute_renewal(state)._replace(renewal="done")
    if state.running_renewals:
        yield (
            "lost renewal is executed",
            lambda: _execute_renewal(state)._replace(
                running_renewals=state.running_renewals - 1, renewal_reply=state.renewal_reply
            ),
        )
    if state.renewal == "done":
        yield "owner hears of its renewal", lambda: _hear_renewal(state)
    if state.renewal and state.losses < rules.losses:
        yield "owner loses its renewal", lambda: _lose_renewal(state)
    if state.owner_leads and state.has_watcher_answered and state.owner.may_answer(state.now):
        yield "owner answers", lambda: _stale_answer(state)
    yield from _append_steps(state, rules)


def _execute_renewal(state: State) -> State:
    if state.is_owner_dead:
        return state._replace(renewal_reply=None)
    return state._replace(
        renewals=state.renewals + 1,
        expires_at=state.database_now + TIMES.lease_ms,
        renewal_reply=state.renewals + 1,
    )


def _hear_renewal(state: State) -> State:
    owner, _ = state.owner.receive(state.renewal_reply, (), state.now)
    return state._replace(
        owner=owner, renewal="", renewal_reply=None, owner_leads=state.owner_leads and not owner.is_over
    )


def _lose_renewal(state: State) -> State:
    still_running = state.renewal == "sent"
    return state._replace(
        owner=state.owner.lose(),
        renewal="",
        renewal_reply=None,
        running_renewals=state.running_renewals + still_running,
        losses=state.losses + 1,
    )


def _stale_answer(state: State) -> State:
    raise BrokenPromiseError("the old owner answers after the new one has")


def _append_steps(state: State, rules: Rules) -> Iterator[tuple[str, Callable[[], State]]]:
    if state.owner_leads and state.append is None and state.acknowledged < rules.appends:
        batch = Append(OWNER, 1, state.acknowledged, f"batch {state.acknowledged}")
        yield "owner appends", lambda: state._replace(append=batch)
    if state.append is not None and state.append_reply is None and not state.is_unknown:
        waiting = state.append
        yield "append is executed", lambda: _execute_append(state, waiting, rules)
    for index, running in enumerate(state.running_appends):
        rest = state.running_appends[:index] + state.running_appends[index + 1 :]
        yield (
            "lost append is executed",
            partial(_execute_lost, state._replace(running_appends=rest), running, rules),
        )
    if state.append_reply is not None:
        yield "owner hears of its append", lambda: _hear_append(state)
    if state.append is not None and not state.is_unknown and state.losses < rules.losses:
        yield "owner loses its append", lambda: _lose_append(state)
    if state.is_unknown:
        yield "owner resolves", lambda: _resolve(state)


def _execute_append(state: State, batch: Append, rules: Rules) -> State:
    is_led = not rules.checks_leader or (state.leader, state.epoch) == (batch.session, batch.epoch)
    fits = not rules.checks_chain or batch.base == len(state.batches)
    if not (is_led and fits):
        return state._replace(append_reply=False)
    if batch in state.batches:
        raise BrokenPromiseError("a batch is stored twice")
    if state.watcher_end is not None:
        raise BrokenPromiseError("a batch is stored behind the new owner's back")
    return state._replace(batches=(*state.batches, batch), append_reply=True)


def _execute_lost(state: State, batch: Append, rules: Rules) -> State:
    return _execute_append(state, batch, rules)._replace(append_reply=state.append_reply)


def _hear_append(state: State) -> State:
    if state.append_reply:
        return _acknowledge(state)
    return state._replace(append=None, append_reply=None, owner_leads=False)


def _acknowledge(state: State) -> State:
    if state.watcher_end is not None and state.append not in state.batches[: state.watcher_end]:
        raise BrokenPromiseError("an acknowledged batch is missing from what the new owner has loaded")
    return state._replace(
        append=None, append_reply=None, is_unknown=False, acknowledged=state.acknowledged + 1
    )


def _lose_append(state: State) -> State:
    assert state.append is not None
    running = (
        state.running_appends if state.append_reply is not None else (*state.running_appends, state.append)
    )
    return state._replace(
        append_reply=None, is_unknown=True, running_appends=running, losses=state.losses + 1
    )


def _resolve(state: State) -> State:
    """On a new connection: leader, epoch and end tell what became of the append; then the same bytes."""
    assert state.append is not None
    if (state.leader, state.epoch) != (state.append.session, state.append.epoch):
        return state._replace(append=None, is_unknown=False, owner_leads=False)
    if len(state.batches) > state.append.base:
        return _acknowledge(state)
    return state._replace(is_unknown=False)


# --- the watcher --------------------------------------------------------------------------------------


def _watcher_steps(state: State, rules: Rules) -> Iterator[tuple[str, Callable[[], State]]]:
    has_polled_now = state.watcher.polled_at == state.now
    if not state.poll and not has_polled_now and state.watcher_end is None and not rules.dies_at_any_time:
        yield "watcher polls", lambda: state._replace(poll="sent", watcher=state.watcher.send(state.now))
    if state.poll == "sent":
        yield "poll is executed", lambda: _execute_poll(state)
    if state.poll == "done":
        yield "watcher hears of its poll", lambda: _hear_poll(state)
    if rules.dies_at_any_time and not state.is_owner_dead:
        dead = state._replace(is_owner_dead=True, watcher_knows_of_death=True)
        yield "owner is buried", lambda: dead
    if state.burial is not None:
        yield "burial is executed", lambda: _execute_burial(state, rules)
    if state.watcher_knows_of_death and state.leader is OWNER:
        yield "watcher takes the partition", lambda: _take(state)
    leads = state.watcher_end is not None and state.watcher.may_answer(state.now)
    if leads and not state.has_watcher_answered:
        yield "watcher answers", lambda: state._replace(has_watcher_answered=True)


def _execute_poll(state: State) -> State:
    renewals = state.watcher_renewals + 1
    rest_ms = state.expires_at - state.database_now
    seen = None if state.is_owner_dead else SeenSession(OWNER, state.renewals, TIMES.lease_ms, rest_ms)
    return state._replace(poll="done", watcher_renewals=renewals, poll_reply=(renewals, seen))


def _hear_poll(state: State) -> State:
    renewals, seen = state.poll_reply
    watcher, effects = state.watcher.receive(renewals, () if seen is None else (seen,), state.now)
    burials = [effect for effect in effects if isinstance(effect, Bury)]
    return state._replace(
        watcher=watcher,
        poll="",
        poll_reply=(0, None),
        burial=burials[0] if burials else state.burial,
        watcher_knows_of_death=seen is None,
    )


def _execute_burial(state: State, rules: Rules) -> State:
    assert state.burial is not None
    is_current = state.burial.renewals == state.renewals or not rules.compares_renewals
    is_expired = state.expires_at < state.database_now or not rules.compares_renewals
    done = is_current and is_expired
    return state._replace(
        burial=None,
        is_owner_dead=state.is_owner_dead or done,
        watcher_knows_of_death=state.watcher_knows_of_death or done,
    )


def _take(state: State) -> State:
    assert state.is_owner_dead
    return state._replace(leader=WATCHER, epoch=state.epoch + 1, watcher_end=len(state.batches))


# --- rules that are left out --------------------------------------------------------------------------


class NoWindow(Lease):
    """Answers as long as it does not know that it is dead."""

    __slots__ = ()

    def may_answer(self, now: Instant) -> bool:
        return not self.is_over


class WindowFromReply(Lease):
    """Counts the window from the reply of a renewal."""

    __slots__ = ()

    def receive(
        self, renewals: int | None, others: Iterable[SeenSession], now: Instant
    ) -> tuple[Lease, list[Effect]]:
        return Lease.receive(replace(self, sent_at=now), renewals, others, now)


class Unwatched(Lease):
    """Buries at once what the database calls expired."""

    __slots__ = ()

    def receive(
        self, renewals: int | None, others: Iterable[SeenSession], now: Instant
    ) -> tuple[Lease, list[Effect]]:
        others = tuple(others)
        lease, effects = Lease.receive(self, renewals, others, now)
        return lease, [*effects, *(Bury(each.session, each.renewals) for each in others if each.is_expired)]


# --- every history ------------------------------------------------------------------------------------


def explore(rules: Rules, ticks: int) -> int:
    """Visit every state, and how many there are. Raises ``BrokenPromiseError`` at the first that is wrong."""
    first = start(rules)
    seen = {first}
    waiting = [first]
    while waiting:
        state = waiting.pop()
        for _label, step in steps(state, rules, ticks):
            after = step()
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return len(seen)
