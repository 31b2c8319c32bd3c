"""Limits on log-ins (security 8)."""

from kohort.broker.login_limits import FailedLogins


def test_the_delay_grows_for_an_address_that_goes_on_failing_and_for_no_other() -> None:
    failed = FailedLogins(0.1)
    delays = [failed.delay("a", 0.0) for _ in range(13)]
    assert delays[:5] == [0.1] * 5
    assert delays[5:10] == [0.2, 0.4, 0.8, 1.6, 3.2]
    assert delays[11:] == [5.0, 5.0]
    assert failed.delay("b", 0.0) == 0.1


def test_after_a_minute_an_address_starts_again() -> None:
    failed = FailedLogins(0.1)
    for _ in range(10):
        failed.delay("a", 0.0)
    assert failed.delay("a", 61.0) == 0.1


def test_the_table_of_addresses_is_bounded() -> None:
    failed = FailedLogins(0.1)
    for number in range(10_001):
        failed.delay(str(number), 0.0)
    assert len(failed._failures) == 10_000


def test_a_delay_that_is_longer_than_the_longest_stays() -> None:
    assert FailedLogins(7.0).delay("a", 0.0) == 7.0
