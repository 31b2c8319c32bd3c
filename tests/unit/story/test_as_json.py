"""What a program reads."""

import json
from pathlib import Path

import pytest
from tests.unit.story.journal import Journal, assignment

from kohort.story.as_json import story_json

# The keys are documented and stay: docs/howto/explain-a-rebalance.md.
STORY_KEYS = ["group", "removed", "people", "rebalances", "incidents", "without_owner", "journal"]
REBALANCE_KEYS = [
    *("kind", "started_at", "cause", "end", "ended_at", "end_cause", "generation_before", "generation"),
    *("protocol", "cooperative", "leader", "preparing_ms", "prepared_by", "completing_ms", "total_ms"),
    *("joined", "last_joined", "delays", "removed", "replaced", "unused_ids", "synced"),
    *("revocations", "awaited"),
    *("members", "members_added", "members_removed", "assignment_known", "moved", "stayed"),
    *("without_owner", "longest_without_owner_ms", "without_owner_ms", "advice", "partial", "dropped"),
]


def test_the_keys_are_those_that_are_documented(journal: Journal) -> None:
    found = story_json(journal.story())
    assert list(found) == STORY_KEYS
    (rebalance,) = json.loads(json.dumps(found["rebalances"]))
    assert list(rebalance) == REBALANCE_KEYS


@pytest.mark.parametrize("key", [*STORY_KEYS, *REBALANCE_KEYS])
def test_the_page_has_the_key(key: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "howto" / "explain-a-rebalance.md"
    assert f"`{key}`" in page.read_text()


def test_members_have_their_full_ids_and_their_short_names(journal: Journal) -> None:
    found = json.loads(json.dumps(story_json(journal.story())))
    assert found["people"][0] == {
        "member_id": journal.id_of("a"),
        "name": "a-…0001",
        "client_id": "a",
        "host": "127.0.0.1",
        "instance_id": None,
    }
    assert found["rebalances"][0]["leader"] == journal.id_of("a")


def test_a_rebalance_is_told_in_numbers(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("b"))
    journal.join("a")
    journal.assign("a", {"a": assignment(0, 1, 2, 3)})
    told = json.loads(json.dumps(story_json(journal.story())))["rebalances"][-1]
    assert told["cause"]["kind"] == "MemberLeft"
    assert told["removed"][0]["member_id"] == journal.id_of("b")
    assert told["moved"][0] == {
        "topic": "t",
        "partition": 2,
        "from": journal.id_of("b"),
        "to": journal.id_of("a"),
    }
    assert told["without_owner"][2]["lost"] == "gone"
    assert (told["end"], told["total_ms"], told["last_joined"]) == ("stable", 20, None)


def test_a_group_that_is_gone_says_why(journal: Journal) -> None:
    journal.do(
        lambda: journal.scenario.leave("a", "b"),
        lambda: journal.scenario.admin.delete_groups("g"),
    )
    found = json.loads(json.dumps(story_json(journal.story())))
    assert found["removed"]["kind"] == "DeletionRequested"


def test_replacements_and_unused_ids_are_there(static: Journal) -> None:
    old = static.id_of("b")
    static.do(
        lambda: static.scenario.join_once("d", session_timeout=6_000),
        lambda: static.scenario.join("a", changed=True),
        lambda: static.scenario.join("b"),
        lambda: static.scenario.join("b", member_id=""),
    )
    static.sleep(7_000)
    told = json.loads(json.dumps(story_json(static.story())))["rebalances"][-1]
    assert told["replaced"] == [{"instance_id": "i", "from": old, "to": static.id_of("b")}]
    assert [one["cause"]["kind"] for one in told["unused_ids"]] == ["PendingIdExpired"]


def test_what_nobody_has_at_the_end_has_no_length_yet(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("a", "b"))
    found = json.loads(json.dumps(story_json(journal.story())))
    assert [(one["partition"], one["ms"], one["at_most"]) for one in found["without_owner"]] == [
        (0, None, False),
        (1, None, False),
        (2, None, False),
        (3, None, False),
    ]


def test_delays_and_gaps_are_counted(journal: Journal) -> None:
    journal.lose(3)
    found = json.loads(json.dumps(story_json(journal.story())))
    assert found["rebalances"][0]["delays"][0]["after_ms"] == 3_000
    assert found["journal"] == {"first_at": 1_700_000_000_000, "dropped": 3, "unreadable": 0}
    assert found["incidents"][-1]["event"] == "JournalGap"
