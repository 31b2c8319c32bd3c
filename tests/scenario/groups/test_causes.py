"""Why something happened: a sentence with who it was and the numbers that decided."""

from collections.abc import Callable
from typing import NamedTuple, get_args

import pytest
from tests.scenario.groups.story import (
    REBALANCE,
    SESSION,
    completing,
    emptied,
    joined,
    keep_alive,
    stable,
)

from kohort.groups.causes import (
    Cause,
    ClassicMemberTimedOut,
    ExpressionsMatched,
    KindChanged,
    MemberPaused,
    Reconciled,
    RevocationTimedOut,
    SessionExpired,
    SubscriptionChanged,
    TargetComputed,
    TopicsDiffer,
    as_json,
)
from kohort.groups.commands import Leaver, SweepOffsets, TopicDeleted
from kohort.groups.events import Event, MemberRemoved, RebalanceStarted
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Instant, MemberId, TopicName
from kohort.sim.driver import Scenario

BUSY = "reason given: too busy"
UNSAID = "reason not provided"


class Story(NamedTuple):
    """A kind of cause, how to make it happen, and what its sentence must say; ``{a}`` is the id of "a"."""

    kind: str
    tell: Callable[[], Scenario]
    says: tuple[str, ...]


def _first_join(reason: str | None) -> Scenario:
    scenario = Scenario()
    scenario.join("a", client_id="app-7", reason=reason)
    return scenario


def _then(scenario: Scenario, act: Callable[[Scenario], object]) -> Scenario:
    act(scenario)
    return scenario


def _with_static() -> Scenario:
    scenario = Scenario()
    scenario.join("a")
    scenario.join("s", instance="i1")
    scenario.settle()
    return scenario


def _restart_of_an_instance() -> Scenario:
    scenario = _with_static()
    scenario.member("before").member_id = scenario.id_of("s")
    scenario.join_once("s", member_id="", reason="too busy")
    return scenario


def _missing_syncs() -> Scenario:
    scenario = completing("a", "b", "c")
    scenario.sync("a")
    keep_alive(scenario, "a", "b", "c", millis=REBALANCE)
    return scenario


def _missing_join() -> Scenario:
    scenario = stable("a", "b", "c")
    scenario.join("a")
    scenario.join("b")
    keep_alive(scenario, "c", millis=REBALANCE)
    return scenario


def _expired_offsets() -> Scenario:
    settings = GroupSettings(
        offsets_retention_ms=3_600_000, offsets_retention_check_interval_ms=1_000_000_000_000
    )
    scenario = Scenario(settings)
    scenario.commit(None, {("t", 0): 1, ("t", 1): 1})
    scenario.sleep(3_600_000)
    scenario.order(SweepOffsets())
    return scenario


def _deleted_topic() -> Scenario:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1})
    scenario.order(TopicDeleted(TopicName("t")))
    return scenario


def _waits(settings: GroupSettings, millis: int, times: int) -> Scenario:
    scenario = Scenario(settings)
    for _ in range(times):
        scenario.join_once("a")
    scenario.sleep(millis)
    return scenario


def _refused_append() -> Scenario:
    scenario = completing("a", "b")
    scenario.fail_next_append(ErrorCode.KAFKA_STORAGE_ERROR)
    scenario.sync("a")
    return scenario


def _loaded_too_large() -> Scenario:
    scenario = stable("a", "b", "c")
    scenario.restart(GroupSettings(max_size=2))
    return scenario


def _turned_away() -> Scenario:
    scenario = Scenario(GroupSettings(max_size=1))
    scenario.join_once("a")
    scenario.join_once("b")
    scenario.join_once("a")
    scenario.join_once("b")
    return scenario


STORIES = (
    Story("FirstJoin", lambda: _first_join("too busy"), ("app-7", BUSY)),
    Story("FirstJoin", lambda: _first_join(None), ("app-7", UNSAID)),
    Story("FirstJoin", lambda: _first_join(""), ("app-7", UNSAID)),
    Story("IdRequested", lambda: _first_join("too busy"), ("app-7", "{a}", BUSY)),
    Story("MemberArrived", lambda: _first_join("too busy"), ("{a}", BUSY)),
    Story("MemberArrived", _with_static, ("{s}", "i1", UNSAID)),
    Story(
        "MemberRejoined",
        lambda: _then(stable("a", "b"), lambda story: story.join("a", reason="too busy")),
        ("leader", "{a}", "unchanged", BUSY),
    ),
    Story(
        "MemberRejoined",
        lambda: _then(stable("a", "b"), lambda story: story.join("b", changed=True)),
        ("{b}", "metadata", UNSAID),
    ),
    Story("InstanceReturned", _restart_of_an_instance, ("i1", "{s}", "{before}", BUSY)),
    Story(
        "MemberLeft",
        lambda: _then(stable("a", "b"), lambda story: story.leave("b", reason="too busy")),
        ("{b}", "left", BUSY),
    ),
    Story(
        "MemberLeft",
        lambda: _then(_with_static(), lambda story: story.leave_as(Leaver(story.id_of("s"), None, None))),
        ("{s}", "i1", UNSAID),
    ),
    Story("CapacityReached", _turned_away, ("{b}", "group.max.size is 1", "1 ")),
    Story("SyncReceived", lambda: stable("a", "b"), ("leader", "{a}")),
    Story(
        "SyncReceived",
        lambda: _then(completing("a", "b"), lambda story: story.sync("b")),
        ("{b}", "assignment"),
    ),
    Story(
        "CommitReceived",
        lambda: _then(stable("a"), lambda story: story.commit("a", {("t", 0): 1, ("t", 1): 1})),
        ("{a}", "2 partitions", "generation 1"),
    ),
    Story(
        "CommitReceived",
        lambda: _then(Scenario(), lambda story: story.commit(None, {("t", 0): 1})),
        ("outside the membership", "1 "),
    ),
    Story(
        "DeletionRequested",
        lambda: _then(emptied("a"), lambda story: story.admin.delete_groups("g")),
        ("administrator", "the group"),
    ),
    Story(
        "SessionExpired",
        lambda: _then(stable("a", "b"), lambda story: keep_alive(story, "a", millis=SESSION)),
        ("{b}", "last heartbeat 10,000 ms ago, timeout 10,000"),
    ),
    Story(
        "NewMemberExpired",
        lambda: _waits(GroupSettings(initial_rebalance_delay_ms=600_000), 300_000, times=2),
        ("{a}", "300,000 ms"),
    ),
    Story(
        "PendingIdExpired",
        lambda: _waits(GroupSettings(), SESSION, times=1),
        ("{a}", "10,000 ms"),
    ),
    Story("JoinTimedOut", _missing_join, ("30,000 ms", "2 of 3 members")),
    Story("InitialDelayPassed", lambda: completing("a", "b"), ("3,000 ms", "2 members", "27,000 ms")),
    Story("SyncTimedOut", _missing_syncs, ("{b}", "{c}", "30,000 ms", "generation 1")),
    Story("RetentionPassed", _expired_offsets, ("2 offsets", "3,600,000 ms")),
    Story(
        "EveryoneJoined",
        lambda: _then(stable("a", "b"), lambda story: (story.join("a"), story.join("b"))),
        ("all 2 members",),
    ),
    Story("AppendRefused", _refused_append, ("KAFKA_STORAGE_ERROR",)),
    Story("AssignmentStored", lambda: stable("a"), ("generation 1",)),
    Story(
        "TopicGone",
        _deleted_topic,
        ("topic t ",),
    ),
    Story("PartitionLoaded", _loaded_too_large, ("3 members", "group.max.size is 2")),
    Story("PartitionUnloaded", lambda: _then(stable("a"), lambda story: story.unload()), ("moved away",)),
)


def causes_of(scenario: Scenario, kind: str) -> list[Cause]:
    return [event.cause for event in scenario.events if type(event.cause).__name__ == kind]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.kind)
def test_every_cause_names_who_and_the_numbers(story: Story) -> None:
    """Some event of the story has a cause of this kind whose sentence says all of it."""
    scenario = story.tell()
    names = {name: scenario.id_of(name) for name in ("a", "b", "c", "s", "before")}
    words = [word.format(**names) for word in story.says]
    sentences = [str(cause) for cause in causes_of(scenario, story.kind)]
    assert any(all(word in sentence for word in words) for sentence in sentences), (words, sentences)


def test_no_kind_of_cause_is_left_out() -> None:
    """Each kind that classic groups know has its story here."""
    of_consumer_groups = {
        SubscriptionChanged,
        MemberPaused,
        RevocationTimedOut,
        ClassicMemberTimedOut,
        TopicsDiffer,
        ExpressionsMatched,
        TargetComputed,
        Reconciled,
        KindChanged,
    }
    kinds = {kind.__name__ for kind in set(get_args(Cause)) - of_consumer_groups}
    assert {story.kind for story in STORIES} == kinds


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.kind)
def test_every_cause_is_data_too(story: Story) -> None:
    """As JSON: its kind, its sentence, and plain values only."""
    for cause in causes_of(story.tell(), story.kind):
        values = as_json(cause)
        assert values["kind"] == story.kind
        assert values["sentence"] == str(cause)
        assert all(isinstance(each, str | int | bool | list | None) for each in values.values())


def causes(scenario: Scenario, *kinds: type[Event]) -> list[Cause]:
    return [event.cause for event in scenario.events if isinstance(event, kinds)]


def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    """A heartbeat at 4,000 and the end at 14,000: that is 10,000 of silence."""
    scenario = stable("a", "b")
    scenario.sleep(4_000)
    scenario.heartbeat("b")
    keep_alive(scenario, "a", millis=SESSION)
    assert causes(scenario, MemberRemoved) == [SessionExpired(scenario.id_of("b"), SESSION, SESSION)]


def test_silence_is_counted_to_the_moment_it_was_noticed() -> None:
    """A coordinator that was busy itself says how long it really was."""
    scenario = stable("a")
    scenario.node.clock.move_to(Instant(scenario.now + 12_500))
    outcome = scenario.shard.advance(scenario.node.clock.now)
    assert [str(event.cause) for event in outcome.events if isinstance(event, MemberRemoved)] == [
        f"session of {scenario.id_of('a')} expired: last heartbeat 12,500 ms ago, timeout 10,000"
    ]


def test_a_rebalance_has_the_cause_of_what_started_it() -> None:
    """Who arrived, left, rejoined or fell silent is the cause of the rebalance too."""
    scenario = stable("a", "b")
    scenario.leave("b", reason="going home")
    [_, left] = scenario.why(RebalanceStarted)
    assert scenario.id_of("b") in left
    assert "going home" in left


def test_an_administrator_who_removes_an_instance_is_told_apart_by_its_name() -> None:
    """The member that went is named, though the request only knew its instance."""
    scenario = _with_static()
    removed = scenario.id_of("s")
    scenario.leave_as(Leaver(MemberId(""), scenario.member("s").instance_id, "by hand"))
    [why] = scenario.why(MemberRemoved)
    assert removed in why
    assert "i1" in why
    assert "by hand" in why
    [_, rebalance] = scenario.why(RebalanceStarted)
    assert removed in rebalance
    assert scenario.replies[scenario.join("a")] == joined(scenario, "a", leader="a", generation=2, listed="a")
