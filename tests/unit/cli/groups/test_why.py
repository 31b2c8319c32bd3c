"""What stands around a story."""

import pytest

from kohort.cli.groups.why import text
from kohort.cli.groups.why.text import show_story
from kohort.client.admin.results import GroupInfo
from kohort.client.metadata import Node
from kohort.model.ids import GroupId, NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.story.rebalance import End, Incident, Lost, Rebalance, Story, Unowned

DAY = 86_400_000
GROUP = GroupInfo(
    group_id=GroupId("g"),
    type="classic",
    state="Empty",
    protocol_type="consumer",
    assignor="",
    coordinator=Node(NodeId(1), "host", 9092),
    members=(),
)


def rebalance(at: int) -> Rebalance:
    cause = {"kind": "MemberLeft", "sentence": "a left", "reason": None}
    return Rebalance(at, cause, end=End.EMPTY, ended_at=at, generation=2)


def test_a_story_begins_with_how_the_group_is_now(capsys: pytest.CaptureFixture[str]) -> None:
    show_story(Story("g", rebalances=[rebalance(10 * DAY)]), GROUP, is_all=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "g: Empty, 0 members"
    assert lines[1].startswith("its last: 1 rebalance, oldest first, on 1970-01-1")
    assert lines[2] == ""
    assert lines[3].endswith("  a left")
    assert lines[4] == "  result      empty after 0 ms: generation 2 has no members"


def test_times_of_several_days_have_dates(capsys: pytest.CaptureFixture[str]) -> None:
    show_story(Story("g", rebalances=[rebalance(10 * DAY), rebalance(20 * DAY)]), GROUP, is_all=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "all that is in the journal: 2 rebalances, oldest first"
    assert lines[3].startswith("1970-01-1")


def test_a_group_that_is_gone_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    cause = {"kind": "DeletionRequested", "sentence": "an administrator deleted the group"}
    incident = Incident(5, "GroupRemoved", "the group is gone")
    show_story(Story("g", removed=cause, incidents=[incident], first_at=5), None, is_all=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "g is gone: an administrator deleted the group"
    assert lines[1].startswith("no rebalance of it is in the journal, which begins ")
    show_story(Story("g"), None, is_all=True)
    assert capsys.readouterr().out.splitlines()[:2] == [
        "g is gone",
        "no rebalance of it is in the journal",
    ]


def test_what_nobody_has_and_what_cannot_be_read_stands_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    orphan = Unowned(TopicPartition(TopicName("t"), Partition(3)), "a", Lost.GONE, 5, None, None)
    show_story(Story("g", unowned=[orphan], unreadable=2), GROUP, is_all=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("t 3: no owner since ")
    assert lines[-1] == "2 documents of the journal could not be read"


def test_on_a_terminal_headings_are_bold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    show_story(Story("g", rebalances=[rebalance(10 * DAY)]), GROUP, is_all=False)
    out = capsys.readouterr().out
    assert out.startswith("\x1b[1mg: Empty, 0 members\x1b[0m")
    assert "\n  result      empty after" in out


def test_on_a_terminal_long_lines_are_wrapped_under_their_facts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    cause = {"kind": "SessionExpired", "sentence": "session of a expired", "timeout_ms": 6_000}
    story = Story("g", rebalances=[Rebalance(0, cause, end=End.EMPTY, ended_at=0, generation=2)])
    show_story(story, GROUP, is_all=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == " " * 14 + "session.timeout.ms (6.00 s)"
