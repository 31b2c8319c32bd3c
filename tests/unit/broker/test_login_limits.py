"""Limits on log-ins (security 8)."""

import pytest

from kohort.broker.login_limits import ArrivalRate, FailedLogins, PerAddress, network_of


def test_the_delay_grows_for_an_address_that_goes_on_failing_and_for_no_other() -> None:
    """Security scenario 61. Given six wrong passwords, then the delay grows, but for no other address."""
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


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("", ""),
    ],
)
def test_addresses_of_ipv6_count_by_their_first_64_bits(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_host_does_not_escape_its_limits_with_many_addresses_of_ipv6() -> None:
    failed = FailedLogins(0.1)
    assert [failed.delay(f"2001:db8::{number}", 0.0) for number in range(6)][-1] == 0.2
    limit = PerAddress(1, "2001:db8::9:1")
    assert limit.enter("2001:db8::1")
    assert not limit.enter("2001:db8::2")
    assert limit.enter("2001:db8::9")  # an exception is for its own address
    for host in ("2001:db8::1", "2001:db8::9"):
        limit.leave(host)
    assert limit.enter("2001:db8::3")


def test_a_seconds_worth_comes_in_at_once_another_waits_and_the_rest_is_closed() -> None:
    rate = ArrivalRate(4, 1_000)
    waits = [rate.wait(str(number), 100.0) for number in range(10)]
    assert waits == [0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 1.0, None]
    assert rate.wait("x", 101.0) == 0.25  # those that wait are through by then
    assert rate.wait("x", 110.0) == 0


def test_an_address_that_comes_too_often_keeps_no_other_out() -> None:
    rate = ArrivalRate(1_000, 2)
    assert [rate.wait("10.0.0.1", 0.0) for _ in range(6)] == [0, 0, 0, 0.5, 1.0, None]
    assert rate.wait("10.0.0.2", 0.0) == 0
    assert [rate.wait(f"2001:db8::{number}", 0.0) for number in range(1, 7)][-1] is None  # one network
    for number in range(10_001):
        rate.wait(str(number), float(number))
    assert len(rate._free_of_one) == 10_000
