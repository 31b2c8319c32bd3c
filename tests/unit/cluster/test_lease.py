"""The lease of one node: when it may answer, whom it buries, and how it ends."""

import pytest

from kohort.cluster.lease import (
    Bury,
    DataLost,
    Effect,
    Fenced,
    Lapsed,
    Lease,
    LeaseSettingsError,
    LeaseTimes,
    SeenSession,
    Serving,
    SessionId,
)
from kohort.model.ids import Instant

OTHER = SessionId(7)
TIMES = LeaseTimes(lease_ms=3_000, renewal_ms=500)


def seen(renewals: int = 5, *, is_expired: bool = True, lease_ms: int = 3_000) -> SeenSession:
    return SeenSession(OTHER, renewals, lease_ms, -1 if is_expired else 0)


def poll(lease: Lease, at: int, *others: SeenSession) -> tuple[Lease, list[Effect]]:
    return lease.send(Instant(at)).receive(lease.renewals + 1, others, Instant(at))


def watched(*times: int, renewals: int = 5) -> list[Effect]:
    """The effects of the last of some polls that all show the same renewals of an expired session."""
    lease, effects = Lease(TIMES), list[Effect]()
    for at in times:
        lease, effects = poll(lease, at, seen(renewals))
    return effects


def test_answers_may_leave_for_a_window_that_is_counted_from_the_sending() -> None:
    lease = Lease(TIMES).send(Instant(1_000))
    assert not lease.may_answer(Instant(1_001))
    lease, effects = lease.receive(1, (), Instant(1_900))
    assert effects == [Serving()]
    assert lease.may_answer(Instant(3_399))
    assert not lease.may_answer(Instant(3_400))


def test_a_window_that_closes_and_opens_again_is_said_once_each() -> None:
    lease, _ = poll(Lease(TIMES), 0)
    lease, effects = lease.tick(Instant(2_399))
    assert effects == []
    lease, effects = lease.tick(Instant(2_400))
    assert effects == [Lapsed()]
    lease, effects = lease.tick(Instant(9_000))
    assert effects == []
    lease, effects = poll(lease, 9_000)
    assert effects == [Serving()]


def test_a_renewal_whose_reply_comes_too_late_opens_no_window() -> None:
    lease, effects = Lease(TIMES).send(Instant(0)).receive(1, (), Instant(2_400))
    assert (effects, lease.may_answer(Instant(2_400))) == ([], False)


def test_a_session_is_buried_that_was_watched_for_longer_than_it_may_answer() -> None:
    polls = range(0, 2_401, 400)
    assert watched(*polls) == []
    assert watched(*polls, 2_449) == []
    assert watched(*polls, 2_450) == [Bury(OTHER, 5)]


def test_the_lease_of_the_watched_session_counts_and_not_our_own() -> None:
    lease, effects = Lease(TIMES), list[Effect]()
    for at in range(0, 8_051, 350):
        lease, effects = poll(lease, at, seen(lease_ms=10_000))
    assert effects == [Bury(OTHER, 5)]
    assert not poll(Lease(TIMES), 0, seen(lease_ms=10_000))[1][1:]


@pytest.mark.parametrize(
    "shown", [seen(is_expired=False), seen(renewals=6)], ids=["not expired", "renewed meanwhile"]
)
def test_a_session_that_may_be_alive_is_not_buried(shown: SeenSession) -> None:
    lease = Lease(TIMES)
    for at in range(0, 2_401, 400):
        lease, _ = poll(lease, at, seen())
    assert poll(lease, 2_450, shown)[1] == []


def test_time_without_sight_does_not_count_as_watching() -> None:
    assert watched(0, 1_001, 2_000, 3_000, 3_450) == []  # blind from 0 to 1,001
    assert watched(0, 1_001, 2_000, 3_000, 3_451) == [Bury(OTHER, 5)]
    lease, _ = poll(Lease(TIMES), 0, seen())
    lease = lease.send(Instant(500)).lose()
    for at in (900, 1_800, 2_700):
        lease, effects = poll(lease, at, seen())
        assert Bury(OTHER, 5) not in effects


def test_a_session_that_is_gone_from_the_table_is_forgotten() -> None:
    lease, _ = poll(Lease(TIMES), 0, seen())
    lease, _ = poll(lease, 400)
    assert lease.watches == ()


@pytest.mark.parametrize(
    ("renewals", "effect"), [(None, Fenced()), (1, DataLost())], ids=["buried", "renewals went back"]
)
def test_a_session_that_is_over_answers_nothing_any_more(renewals: int | None, effect: Effect) -> None:
    lease, _ = poll(Lease(TIMES), 0)
    lease, _ = poll(lease, 400)
    lease, effects = lease.send(Instant(500)).receive(renewals, (seen(),), Instant(500))
    assert effects == [effect]
    assert (lease.is_over, lease.may_answer(Instant(500)), lease.tick(Instant(9_000))[1]) == (True, False, [])


@pytest.mark.parametrize("phase", [0, 1, 49, 250, 450, 499])
def test_a_dead_session_is_buried_in_the_moment_its_lease_ends(phase: int) -> None:
    """Whenever in the interval of its watcher it was renewed for the last time, which is at 10,000 here."""
    lease, at, polls = Lease(TIMES), Instant(8_000 + phase), 0
    while True:
        last_renewal = min(10_000, at // 500 * 500)
        shown = seen(last_renewal, is_expired=False)._replace(rest_ms=last_renewal + TIMES.lease_ms - at)
        lease, effects = poll(lease, at, shown)
        if Bury(OTHER, 10_000) in effects:
            break
        at, polls = lease.next_poll(at), polls + 1
    assert 13_000 < at < 13_002
    assert polls <= 5_000 // 500 + 1, "one poll beside those of every interval"


def test_a_session_that_can_not_be_buried_is_not_looked_at_more_often() -> None:
    lease, effects = Lease(TIMES), list[Effect]()
    for at in range(0, 2_401, 400):
        lease, effects = poll(lease, at, seen())
    assert lease.next_poll(Instant(2_400)) == 2_450
    lease, effects = poll(lease, 2_450, seen())
    assert (effects, lease.next_poll(Instant(2_450))) == ([Bury(OTHER, 5)], 2_950)
    assert lease.lose().next_poll(Instant(2_600)) == 3_100


@pytest.mark.parametrize(("lease", "renewal"), [(2_500, 500), (3_000, 600), (3_000, 0)])
def test_times_that_are_not_safe_are_refused(lease: int, renewal: int) -> None:
    with pytest.raises(LeaseSettingsError, match="longer lease or a shorter interval"):
        LeaseTimes(lease, renewal)
