"""Warnings that come again and again."""

import logging

import pytest

from kohort.broker.clock import VirtualClock
from kohort.broker.notices import _MOST_KEYS, WINDOW_MS, Notices

LOGGER = logging.getLogger("kohort.test")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_the_first_are_logged_and_the_others_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    notices = Notices(clock)
    for number in range(10):
        notices.warn(LOGGER, "bad frames of /1.2.3.4", f"frame {number}", at_most=3)
    notices.warn(LOGGER, "bad frames of /5.6.7.8", "another peer")
    assert lines(caplog) == ["frame 0", "frame 1", "frame 2", "another peer"]
    clock.advance(WINDOW_MS)
    assert lines(caplog)[4:] == [
        "bad frames of /1.2.3.4: 7 more in the last minute, not logged one by one; the last: frame 9"
    ]
    notices.warn(LOGGER, "bad frames of /1.2.3.4", "a minute later")
    assert lines(caplog)[5:] == ["a minute later"]


def test_what_comes_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    notices = Notices(clock)
    for port in range(4):
        notices.warn(LOGGER, "peers", f"closed port {port}: too long", at_most=3, reason="too long")
    notices.warn(LOGGER, "peers", "closed port 5: too short", at_most=3, reason="too short")
    assert lines(caplog) == ["closed port 0: too long", "closed port 5: too short"]
    clock.advance(WINDOW_MS)
    assert lines(caplog)[2:] == [
        "peers: 3 more in the last minute, not logged one by one; the last: closed port 3: too long"
    ]


def test_what_was_counted_is_said_when_the_broker_stops(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    notices = Notices(clock)
    for _ in range(3):
        notices.warn(LOGGER, "peers", "x")
    notices.close()
    clock.advance(WINDOW_MS)
    assert lines(caplog) == ["x", "peers: 2 more in the last minute, not logged one by one; the last: x"]


def test_peers_without_number_are_counted_together(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    notices = Notices(clock)
    for number in range(3 * _MOST_KEYS):
        notices.warn(LOGGER, f"peer {number}", "x")
    assert len(lines(caplog)) == _MOST_KEYS + 1
    clock.advance(WINDOW_MS)
    assert lines(caplog)[-1].startswith(f"others: {2 * _MOST_KEYS - 1} more")
