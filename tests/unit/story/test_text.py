"""What a person reads."""

from dataclasses import replace

import pytest
from tests.unit.story.journal import DELAY, Journal, assignment, owning, tp

from kohort.sim.clock import EPOCH
from kohort.story.rebalance import (
    Arrival,
    Delay,
    End,
    Incident,
    Lost,
    Move,
    Rebalance,
    Removal,
    Story,
    StoryMember,
    Unowned,
)
from kohort.story.text import story_lines, unowned_line

STABLE = Rebalance(
    1_000,
    {"kind": "MemberArrived", "sentence": "a joined; reason not provided"},
    generation=1,
    protocol="range",
    leader="a",
    members=("a",),
    members_before=("a",),
    arrivals={"a": Arrival("a", 0)},
    prepared_at=1_100,
    prepared_by={"kind": "EveryoneJoined", "sentence": "all 2 members had joined", "members": 2},
    end=End.STABLE,
    ended_at=1_120,
    end_cause={"kind": "AssignmentStored", "sentence": "the assignment of generation 1 is stored"},
    is_assignment_known=True,
    stayed=1,
)


def clock(at: int) -> str:
    return f"{(at - EPOCH) / 1_000:.3f}"


def lines(*rebalances: Rebalance) -> list[str]:
    story = Story("g", people={"a": StoryMember("a", "a", "h", None)}, rebalances=list(rebalances))
    return story_lines(story, str)


def line(label: str, rebalance: Rebalance) -> str | None:
    """What stands behind a label, on one line."""
    found: list[str] = []
    wanted = False
    for one in lines(rebalance)[1:]:
        wanted = one[2:14].strip() == label or (wanted and not one[2:14].strip())
        found += [one[14:]] if wanted else []
    return " | ".join(found) or None


GOLDEN = """\
0.000  the group was made: client a was the first to join

0.000  a-…0001 joined
  result      stable after 6.01 s: generation 1, range (eager), a-…0001 leads
  phases      preparing 6.00 s: the initial delay passed, prolonged once, 2 members came
              completing 10 ms: the leader's assignment came after 10 ms
  joined      +0 ms     a-…0001, new
              +10 ms    b-…0003, new, the last, 10 ms behind
  members     2: + a-…0001, b-…0003
  partitions  4 new
              no owner → a-…0001: t 0-1
              no owner → b-…0003: t 2-3

9.020  c-…0005 joined; reason given: scaled up
  result      stable after 50 ms: generation 2, range (eager), a-…0001 leads
  phases      preparing 20 ms: all 3 members had joined
              completing 30 ms: the leader's assignment came after 30 ms
  joined      +0 ms     c-…0005, new (scaled up)
              +10 ms    a-…0001
              +20 ms    b-…0003, the last, 10 ms behind
  members     3: + c-…0005
  partitions  1 moved, 3 stayed
              b-…0003 → c-…0005: t 3
  no owner    up to 50 ms: t 0-3
              up to 0.2 partition-seconds in all

19.070  session of b-…0003 expired: last heartbeat 10,000 ms ago, timeout 10,000
  result      stable after 9.03 s: generation 3, range (eager), a-…0001 leads
  phases      preparing 9.02 s: all 2 members had joined
              completing 10 ms: the leader's assignment came after 10 ms
              c-…0005 took it after 120 ms
  joined      +10 ms    a-…0001
              +9.02 s   c-…0005, the last, 9.01 s behind
  members     2: - b-…0003
  partitions  1 moved, 3 stayed
              b-…0003 → a-…0001: t 2
  no owner    19.0 s, since b-…0003 was last heard of: t 2
              up to 9.14 s: t 3
              up to 9.03 s: t 0-1
              up to 46.2 partition-seconds in all
  advice      the process died, hung or was cut off: nothing was heard of it for session.timeout.ms (10.0 s)
"""


def test_the_story_of_a_member_that_came_and_another_that_died() -> None:
    journal = Journal()
    scenario = journal.scenario
    journal.start()
    journal.sleep(DELAY)
    journal.do(lambda: scenario.join("c", reason="scaled up"))
    journal.join("a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    while len(journal.story().rebalances) < 3:  # until the session of "b" expires
        journal.sleep(1_000)
        scenario.heartbeat("a")
        scenario.heartbeat("c")
    journal.join("a")
    journal.sleep(3 * DELAY)
    journal.join("c")
    journal.assign("a", {"a": assignment(0, 1, 2), "c": assignment(3)})
    journal.sleep(100)
    journal.do(lambda: scenario.sync("c"))
    assert "\n".join(story_lines(journal.story(), clock)) + "\n" == GOLDEN


def test_the_two_halves_of_a_cooperative_rebalance_explain_each_other(journal: Journal) -> None:
    scenario = journal.scenario
    journal.join("c")
    journal.do(
        lambda: scenario.join("a", protocols=[("range", owning(0, 1))]),
        lambda: scenario.join("b", protocols=[("range", owning(2, 3))]),
    )
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": b""}, "b", "c")
    first = "\n".join(story_lines(journal.story(), clock))
    assert "  partitions  1 taken away, 3 stayed\n              b-…0003 → no owner: t 3\n" in first
    assert first.endswith("the next one hands out what this one took away")
    assert unowned_line(journal.story(), clock) == "t 3: no owner since 6.070"
    journal.do(
        lambda: scenario.join("b", protocols=[("range", owning(2))]),
        lambda: scenario.join("a"),
        lambda: scenario.join("c"),
    )
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    second = story_lines(journal.story(), clock)[-1]
    assert second == "  no owner    60 ms, since the rebalance before took them away: t 3"
    assert unowned_line(journal.story(), clock) is None


def test_what_happens_between_rebalances_stands_between_them() -> None:
    story = Story(
        "g",
        rebalances=[STABLE, replace(STABLE, started_at=9_000)],
        incidents=[Incident(5_000, "GroupDied", "it moved"), Incident(6_000, "GroupLoaded", "it came")],
    )
    found = story_lines(story, str)
    at = found.index("5000  it moved")
    assert (found[at - 1], found[at + 1], found[at + 2]) == ("", "6000  it came", "")


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({}, "stable after 120 ms: generation 1, range (eager), a leads"),
        ({"leader": None}, "stable after 120 ms: generation 1, range (eager)"),
        ({"end": End.EMPTY}, "empty after 120 ms: generation 1 has no members"),
        (
            {"end": End.RESTARTED, "end_cause": {"sentence": "b joined; reason not provided"}},
            "none: after 120 ms it began again, because b joined",
        ),
        (
            {"end": End.LOST, "end_cause": {"sentence": "the coordinator of this group moved away"}},
            "none: cut off after 120 ms, the coordinator of this group moved away",
        ),
        ({"end": End.RUNNING, "end_cause": None, "prepared_at": None}, "none yet: members join"),
        ({"end": End.RUNNING, "end_cause": None}, "none yet: the assignment is awaited"),
    ],
)
def test_every_end_has_its_words(changes: dict[str, object], result: str) -> None:
    assert line("result", replace(STABLE, **changes)) == result  # type: ignore[arg-type] # fields by name


def test_phases_are_told_as_far_as_they_came() -> None:
    assert line("phases", STABLE) == "preparing 100 ms: all 2 members had joined | completing 20 ms"
    unfinished = replace(STABLE, end=End.RUNNING, ended_at=None)
    assert line("phases", unfinished) == "preparing 100 ms: all 2 members had joined"
    assert line("phases", replace(unfinished, prepared_at=None, prepared_by=None)) is None


def test_who_is_alone_waits_for_nobody() -> None:
    alone = {"kind": "EveryoneJoined", "sentence": "all 1 members had joined", "members": 1}
    told = replace(STABLE, prepared_by=alone, ended_at=None)
    assert line("phases", told) == "preparing 100 ms: its only member had joined"


def test_a_prolonged_join_phase_says_how_often() -> None:
    prolonged = replace(STABLE, delays=[Delay(1, "x"), Delay(2, "x")])
    assert line("phases", prolonged) == (
        "preparing 100 ms: all 2 members had joined, prolonged 2 times | completing 20 ms"
    )


def test_removals_are_told_with_their_causes_but_the_first_one_not_twice() -> None:
    other = {"kind": "SessionExpired", "sentence": "session of a expired", "timeout_ms": 1}
    timeout = {"kind": "JoinTimedOut", "sentence": "the timeout passed", "timeout_ms": 1}
    removals = [Removal("b", 0, STABLE.cause), Removal("a", 5, other), Removal("c", 1_500, timeout)]
    assert line("removed", replace(STABLE, removals=removals)) == (
        "+5 ms     session of a expired | +1.50 s   c: the timeout passed"
    )


def test_a_rebalance_that_waits_says_for_whom() -> None:
    told = replace(STABLE, end=End.RUNNING, ended_at=None, prepared_at=None, prepared_by=None)
    many = tuple(f"m{number}" for number in range(10))
    assert line("waits for", replace(told, awaited=("a", "b"))) == "a, b"
    assert line("waits for", replace(told, awaited=many)) == "m0, m1, m2, m3, m4, m5, m6, m7 and 2 more"


def test_an_id_nobody_used_is_told() -> None:
    cause = {"kind": "PendingIdExpired", "sentence": "id d was handed out and not used"}
    told = replace(STABLE, unused_ids=[Removal("d", 9, cause)])
    assert line("not used", told) == "id d was handed out and not used"


def test_a_thousand_members_take_a_few_lines() -> None:
    told = replace(STABLE, arrivals={f"m{number}": Arrival(f"m{number}", number) for number in range(1_000)})
    found = line("joined", told)
    assert found is not None
    assert found.split(" | ")[-2:] == [
        "… 993 more (--json has all)",
        "+999 ms   m999, the last, 1 ms behind",
    ]


def test_what_is_not_known_of_partitions_is_said() -> None:
    assert line("partitions", STABLE) == "all 1 stayed where they were"
    assert line("partitions", replace(STABLE, stayed=0)) == "none are assigned"
    assert line("partitions", replace(STABLE, is_readable=False)) == (
        "this is not a group of consumers: its assignments cannot be read"
    )
    assert line("partitions", replace(STABLE, is_assignment_known=False)) == (
        "the assignment before is not in the journal: what moved is unknown"
    )


def test_partitions_that_a_group_without_members_left_behind_say_whose_they_were() -> None:
    unowned = [
        Unowned(tp(0), "a", Lost.GONE, 400, 1_120, "b"),
        Unowned(tp(1), "a", Lost.GONE, 1_000, 1_120, "b"),
        Unowned(tp(2), "a", Lost.GONE, 1_000, None, None),
    ]
    told = replace(STABLE, moves=[Move(tp(0), "a", "b")], unowned=unowned)
    assert (
        line("no owner", told) == "720 ms, since a is gone: t 0 | 120 ms: t 1 | 0.8 partition-seconds in all"
    )


def test_what_the_journal_lacks_is_said() -> None:
    assert line("incomplete", replace(STABLE, is_partial=True, dropped=1_200)) == (
        "its beginning is not in the journal"
        " | the journal lost 1,200 events meanwhile, of this group or others"
    )


def test_a_static_restart_shows_both_ids(static: Journal) -> None:
    static.do(
        lambda: static.scenario.join("a", changed=True),
        lambda: static.scenario.join("b"),
        lambda: static.scenario.join("b", member_id=""),
        lambda: static.scenario.join("a"),
    )
    row = f"  replaced    i: i-…0003 → i-…{static.id_of('b')[-4:]}"
    assert row in story_lines(static.story(), clock)
