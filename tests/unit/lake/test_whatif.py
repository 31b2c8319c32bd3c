"""What if: settings, replays with hand-worked answers, and predictions against the simulated truth."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from statistics import mean

import pytest
from tests.unit.lake.recorded_lives import lake_rows, recorded

from kohort.lake.whatif.answer import conclude
from kohort.lake.whatif.happenings import (
    AmbiguousEvent,
    ClientSettings,
    Crash,
    Grow,
    Happening,
    Recording,
    Seat,
    Silence,
    SlowPoll,
    Start,
    Stop,
    Subscribe,
)
from kohort.lake.whatif.lives import make_life
from kohort.lake.whatif.page import page
from kohort.lake.whatif.recording import NoHistoryError, read_recording
from kohort.lake.whatif.replay import Result, simulate_one
from kohort.lake.whatif.settings import WhatIfSettingError, parse_changes, variants

TEN_SECONDS = ClientSettings(session_timeout_ms=10_000)
MINUTE = 60_000


def story(*happenings: Happening, seats: int = 3, partitions: int = 6) -> Recording:
    """A group of members a, b, c, … that has been stable for a while when something happens."""
    names = "abcdef"[: seats + 1]
    return Recording(
        group="billing",
        length_ms=30 * MINUTE,
        seats={name: Seat(name, name, "/h", ("t",)) for name in names},
        topics={"t": partitions, "u": 2},
        running=tuple(names[:seats]),
        happenings=happenings,
        settings=TEN_SECONDS,
        rebalances=0,
    )


def run(settings: ClientSettings, *happenings: Happening) -> Result:
    return simulate_one(story(*happenings), settings, 1)


# --- replays with hand-worked answers -----------------------------------------------------------

COOPERATIVE = replace(TEN_SECONDS, assignor="cooperative-sticky")
STATIC = replace(TEN_SECONDS, static=True, session_timeout_ms=45_000)
CONSUMER = replace(TEN_SECONDS, protocol="consumer", heartbeat_interval_ms=5_000, session_timeout_ms=45_000)
RESTART = (Stop(MINUTE, "a"), Start(MINUTE + 8_000, "a"))
PAUSE = (Silence(MINUTE, "a", MINUTE + 25_000),)
SLOW = (SlowPoll(MINUTE, "a", 8 * MINUTE),)

REBALANCES = {
    "nothing happens, nothing is done": (TEN_SECONDS, (), 0),
    "a member that leaves and comes back costs two": (TEN_SECONDS, RESTART, 2),
    "a static one that is back in time costs none": (STATIC, RESTART, 0),
    "a pause beyond the session costs two: it is thrown out and comes back": (TEN_SECONDS, PAUSE, 2),
    "a pause within the session costs none": (replace(TEN_SECONDS, session_timeout_ms=45_000), PAUSE, 0),
    "slow work beyond max.poll.interval.ms costs two": (TEN_SECONDS, SLOW, 2),
    "slow work within it costs none": (replace(TEN_SECONDS, max_poll_interval_ms=10 * MINUTE), SLOW, 0),
    "a crash costs one": (TEN_SECONDS, (Crash(MINUTE, "a"),), 1),
    "a new member costs one when all let go": (TEN_SECONDS, (Start(MINUTE, "d"),), 1),
    "and two when partitions are first taken from others": (COOPERATIVE, (Start(MINUTE, "d"),), 2),
    "more partitions cost one": (TEN_SECONDS, (Grow(MINUTE, "t", 8),), 1),
    "another subscription costs one": (TEN_SECONDS, (Subscribe(MINUTE, "a", ("t", "u")),), 1),
    "a consumer group has an epoch for each who leaves or comes": (CONSUMER, RESTART, 2),
    "and for more partitions": (CONSUMER, (Grow(MINUTE, "t", 8),), 1),
    "but a static member of it may be away": (replace(CONSUMER, static=True), RESTART, 0),
}


@pytest.mark.parametrize(("settings", "happenings", "expected"), REBALANCES.values(), ids=REBALANCES)
def test_a_replay_has_the_rebalances_that_kafka_would_have(
    settings: ClientSettings, happenings: Sequence[Happening], expected: int
) -> None:
    assert run(settings, *happenings).rebalances == expected


def test_a_crash_is_noticed_after_the_session_timeout() -> None:
    for timeout in (10_000, 45_000):
        result = run(replace(TEN_SECONDS, session_timeout_ms=timeout), Crash(MINUTE, "a"))
        beat = TEN_SECONDS.heartbeat_interval_ms
        assert 2 * (timeout - beat) <= result.dead_ms <= 2 * timeout + 100  # it had two of six partitions
        assert result.unowned_ms > result.dead_ms  # then the others let go and join again
        assert result.longest_ms >= timeout - beat


def test_members_that_keep_what_stays_theirs_lose_less_time() -> None:
    eager, cooperative = run(TEN_SECONDS, Start(MINUTE, "d")), run(COOPERATIVE, Start(MINUTE, "d"))
    assert 0 < cooperative.unowned_ms < eager.unowned_ms
    assert cooperative.moved == 1  # the fourth member gets one of six


def test_a_static_member_that_is_away_has_its_partitions_wait_for_it() -> None:
    assert run(STATIC, *RESTART).unowned_ms == pytest.approx(2 * 8_000, abs=100)


def test_everybody_gone_is_not_time_without_an_owner() -> None:
    assert run(TEN_SECONDS, *(Stop(MINUTE, name) for name in "abc")).unowned_ms < 10_000


def test_a_run_is_the_same_for_the_same_seed_and_does_not_cost_its_length() -> None:
    life = make_life(1, TEN_SECONDS)
    assert simulate_one(life, TEN_SECONDS, 3) == simulate_one(life, TEN_SECONDS, 3)
    quiet = replace(story(Crash(MINUTE, "a")), length_ms=365 * 24 * 60 * MINUTE)
    assert simulate_one(quiet, TEN_SECONDS, 1) == run(TEN_SECONDS, Crash(MINUTE, "a"))


# --- what is read of a recording ----------------------------------------------------------------


def kinds(recording: Recording) -> list[str]:
    return [type(one).__name__ for one in recording.happenings]


READ = {
    "a clean restart": (RESTART, ["Stop", "Start"]),
    "a pause looks like a restart without a word": (PAUSE, ["AmbiguousEvent"]),
    "back before it was missed is another process": (
        (Crash(MINUTE, "a"), Start(MINUTE + 4_000, "a")), ["Crash", "Start"],
    ),
    "a crash": ((Crash(MINUTE, "a"),), ["Crash"]),
    "slow work": (SLOW, ["SlowPoll"]),
    "a new member": ((Start(MINUTE, "d"),), ["Start"]),
    "more partitions": ((Grow(MINUTE, "t", 8),), ["Grow"]),
    "another subscription": ((Subscribe(MINUTE, "a", ("t", "u")),), ["Subscribe"]),
}  # fmt: skip


@pytest.mark.parametrize(("happenings", "expected"), READ.values(), ids=READ)
def test_the_journal_tells_what_happened(happenings: Sequence[Happening], expected: list[str]) -> None:
    found = recorded(story(*happenings), TEN_SECONDS, 1, has_journal=True)
    assert kinds(found) == expected
    assert found.running == ("a", "b", "c")
    assert found.topics["t"] == 6
    assert found.settings == TEN_SECONDS
    assert len(found.seats) <= 4  # who is back has the seat that it had


def test_a_pause_is_found_where_it_was() -> None:
    (doubt,) = recorded(story(*PAUSE), TEN_SECONDS, 1, has_journal=True).happenings
    assert isinstance(doubt, AmbiguousEvent)
    (silence,) = doubt.one
    assert isinstance(silence, Silence)
    beat = TEN_SECONDS.heartbeat_interval_ms
    assert silence.until - silence.at == pytest.approx(25_000, abs=beat + 500)


def test_without_a_journal_who_is_gone_may_have_left_or_crashed() -> None:
    found = recorded(story(Crash(MINUTE, "a")), TEN_SECONDS, 1, has_journal=False)
    assert kinds(found) == ["AmbiguousEvent"]
    assert not found.has_journal


def test_without_a_journal_a_deploy_is_known_by_its_size() -> None:
    deploy = [one for name in "abc" for one in (Stop(MINUTE + ord(name) * 9, name), Start(2 * MINUTE, name))]
    assert set(kinds(recorded(story(*deploy), TEN_SECONDS, 1, has_journal=False))) == {"Stop", "Start"}


def test_a_group_without_members_cannot_be_replayed() -> None:
    with pytest.raises(NoHistoryError, match="no members of group 'x'"):
        read_recording("x", [], [])


# --- predictions --------------------------------------------------------------------------------

OTHERS = {
    "session": replace(TEN_SECONDS, session_timeout_ms=45_000),
    "static": STATIC,
    "cooperative": COOPERATIVE,
    "consumer": CONSUMER,
}


@pytest.mark.parametrize(
    ("has_journal", "most_rebalances", "most_time"), [(True, 0.1, 0.35), (False, 0.15, 0.6)]
)
def test_predictions_are_near_the_simulated_truth(
    has_journal: bool, most_rebalances: float, most_time: float
) -> None:
    """The measured errors are in docs/howto/group-lake.md; this holds them there."""
    life = make_life(0, TEN_SECONDS)
    recording = recorded(life, TEN_SECONDS, 1_000, has_journal=has_journal)
    off_rebalances, off_time = [], []
    for other in OTHERS.values():
        truth = simulate_one(life, other, 1_000)
        runs = [simulate_one(recording, other, number) for number in range(2)]
        off_rebalances.append(abs(mean(one.rebalances for one in runs) / truth.rebalances - 1))
        off_time.append(abs(mean(one.unowned_ms for one in runs) / truth.unowned_ms - 1))
    assert mean(off_rebalances) < most_rebalances
    assert mean(off_time) < most_time


# --- settings and answers -----------------------------------------------------------------------


def test_every_combination_is_tried_and_the_recorded_settings_come_first() -> None:
    tried = variants(TEN_SECONDS, parse_changes(["session.timeout.ms=6000,45000", "static=true"]))
    assert [one.label for one in tried] == [
        "as recorded",
        "session.timeout.ms=6000 static=true",
        "session.timeout.ms=45000 static=true",
    ]
    assert tried[2].settings == STATIC


def test_the_new_protocol_comes_with_the_timeouts_of_a_broker() -> None:
    assert variants(TEN_SECONDS, parse_changes(["group.protocol=consumer"]))[1].settings == CONSUMER


@pytest.mark.parametrize(
    "text",
    [
        "linger.ms=5",
        "static",
        "static=yes",
        "session.timeout.ms=0",
        "assignor=best",
        "group.protocol=x",
        "=1",
    ],
)
def test_what_cannot_be_set_is_refused(text: str) -> None:
    with pytest.raises(WhatIfSettingError):
        parse_changes([text])


def test_an_assignor_that_cannot_be_replayed_is_refused_with_those_that_can() -> None:
    with pytest.raises(
        WhatIfSettingError, match=r"assign with range, roundrobin, sticky, cooperative-sticky$"
    ):
        parse_changes(["assignor=stream"])


def test_the_answer_says_what_would_be_better_and_what_it_costs() -> None:
    recording = recorded(story(*RESTART, *(one._replace(at=10 * MINUTE) for one in (Crash(0, "b"),))),
                         TEN_SECONDS, 1, has_journal=True)  # fmt: skip
    tried = variants(recording.settings, parse_changes(["session.timeout.ms=45000", "static=true"]))
    results = {
        (place, seed): simulate_one(recording, each.settings, seed)
        for place, each in enumerate(tried)
        for seed in range(3)
    }
    answer = conclude(recording, tried, results, 3)
    words = " ".join(answer.words)
    assert answer.words[0].startswith("The recording has 3 rebalances")
    assert "With session.timeout.ms=45000 static=true: 1 rebalance instead of 3" in words
    assert "The price: partitions wait" in words
    assert answer.as_json()["outcomes"][1]["rebalances"]["middle"] == 1
    assert "do not rely on it" not in words
    text = page(answer)
    assert 'id="unowned"' in text
    assert 'id="rebalances"' in text
    assert "takes for granted" in text


@pytest.mark.parametrize(
    ("recorded_protocol", "change", "is_assumed"),
    [
        ("classic", "static=true", True),
        ("classic", "assignor=sticky", True),
        ("consumer", "static=true", False),
        ("consumer", "group.protocol=classic", True),
    ],
)
def test_a_group_with_an_assignor_of_its_own_is_replayed_with_another_one_and_the_answer_says_so(
    recorded_protocol: str, change: str, is_assumed: bool
) -> None:
    settings = replace(TEN_SECONDS, protocol=recorded_protocol)
    rows, journal = lake_rows(story(*RESTART), settings, 1)
    recording = read_recording("billing", [row | {"protocol": "stream"} for row in rows], journal)
    tried = variants(recording.settings, parse_changes([change]))
    results = {(place, 0): simulate_one(recording, each.settings, 0) for place, each in enumerate(tried)}
    said = [one for one in conclude(recording, tried, results, 1).assumptions if "'stream'" in one]
    assert [one.partition(",")[0] for one in said] == ["Classic members assign with range"] * is_assumed


@pytest.mark.parametrize("group", ["ANTIBODY", "TITLE", "BODY TITLE", "</title><b>"])
def test_a_page_is_whole_whatever_the_group_is_called(group: str) -> None:
    recording = replace(story(*RESTART), group=group)
    tried = variants(TEN_SECONDS, {})
    text = page(conclude(recording, tried, {(0, 0): simulate_one(recording, TEN_SECONDS, 0)}, 1))
    title = escape(f"What if group {group} had had other settings?")
    assert text.count(f"<title>{title}</title>") == text.count(f"<h1>{title}</h1>") == 1
    assert text.count(escape(group)) == 2
    assert text.count("takes for granted") == 1


def test_a_replay_that_is_far_from_the_recording_says_so() -> None:
    recording = replace(story(*RESTART), rebalances=40)
    answer = conclude(
        recording, variants(TEN_SECONDS, {}), {(0, 0): simulate_one(recording, TEN_SECONDS, 0)}, 1
    )
    assert "do not rely on it" in answer.words[0]
