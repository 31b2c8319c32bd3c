"""Snapshots, rebalances, sessions and findings of one group, with hand-worked answers."""

import json
from typing import Any

import pytest

from kohort.lake.findings import RULES, findings_of, runs
from kohort.lake.rebalances import inferred_rebalances, sessions
from kohort.lake.snapshots import snapshots

ID = "AAECAwQFBgcICQoLDA0ODw"


def record(kind: str, details: object, at: int, member: str | None = None) -> dict[str, Any]:
    return {
        "kind": kind,
        "group_id": "g",
        "member_id": member,
        "tombstone": details is None,
        "details": None if details is None else json.dumps(details),
        "problem": None,
        "ts": at,
        "src_partition": 0,
        "src_offset": at,
    }


def current(epoch: int, partitions: list[int]) -> dict[str, Any]:
    owned = [{"topicId": ID, "partitions": partitions}]
    return {"memberEpoch": epoch, "state": 0, "assignedPartitions": owned, "partitionsPendingRevocation": []}


SUBSCRIBED = {
    "instanceId": None,
    "clientId": "c",
    "clientHost": "/h",
    "subscribedTopicNames": ["t"],
    "classicMemberMetadata": None,
}


def test_a_consumer_group_is_told_after_each_record_that_changes_who_has_what() -> None:
    records = [
        record("consumer_group_member_metadata", SUBSCRIBED, 1, "m"),
        record("consumer_group_metadata", {"epoch": 1}, 2),
        record("consumer_group_target_assignment_metadata", {"assignmentEpoch": 1}, 3),
        record("consumer_group_current_member_assignment", current(1, [0, 1]), 4, "m"),
        record("consumer_group_current_member_assignment", None, 5, "m"),
        record("consumer_group_member_metadata", None, 6, "m"),
        record("consumer_group_metadata", {"epoch": 2}, 7),
        record("consumer_group_target_assignment_metadata", {"assignmentEpoch": 2}, 8),
        record("consumer_group_metadata", None, 9),
    ]
    told = list(snapshots(records, {ID: "t"}))
    assert [(one["src_offset"], one["state"], one["generation"]) for one in told] == [
        (2, "Assigning", 1),
        (3, "Reconciling", 1),
        (4, "Stable", 1),
        (5, "Reconciling", 1),
        (7, "Empty", 2),
        (8, "Empty", 2),
        (9, "Dead", None),
    ]
    assert told[2]["members"][0]["assigned"] == [
        {"topic": "t", "partition": 0},
        {"topic": "t", "partition": 1},
    ]


def test_a_topic_whose_name_is_not_known_keeps_its_id() -> None:
    records = [
        record("consumer_group_member_metadata", SUBSCRIBED, 1, "m"),
        record("consumer_group_current_member_assignment", current(1, [0]), 2, "m"),
    ]
    (told,) = snapshots(records, {})
    assert told["members"][0]["assigned"] == [{"topic": ID, "partition": 0}]


def member(
    name: str, *partitions: int, client: str | None = None, instance: str | None = None
) -> dict[str, Any]:
    return {
        "member_id": name,
        "instance_id": instance,
        "client_id": client or name,
        "host": "/h",
        "session_timeout_ms": 10_000,
        "subscribed": ["t"],
        "assigned": [{"topic": "t", "partition": number} for number in partitions],
    }


def snapshot(generation: int, *members: dict[str, Any], at: int | None = None) -> dict[str, Any]:
    return {
        "group_id": "g",
        "generation": generation,
        "members": list(members),
        "since": None,
        "ts": generation * 1_000 if at is None else at,
        "src_offset": generation,
    }


A, B = member("a", 0, 1), member("b", 2, 3)
OTHER = member("a", 0, 1) | {"subscribed": ["t", "u"]}


@pytest.mark.parametrize(
    ("before", "after", "trigger", "moved"),
    [
        ([A], [], "GroupEmptied", 2),
        ([], [A], "GroupFormed", 0),
        ([member("a", 0, instance="i")], [member("x", 0, instance="i")], "StaticMemberReturned", 0),
        ([A, B], [A, member("b2", 2, 3, client="b")], "MemberRestarted", 2),
        ([A, B], [A, member("c", 2, 3)], "MembersJoinedAndLeft", 2),
        ([member("a", 0, 1, 2, 3)], [A, B], "MemberJoined", 2),
        ([A, B], [member("a", 0, 1, 2, 3)], "MemberLeft", 2),
        ([A, B], [OTHER, B], "SubscriptionChanged", 0),
        ([A, B], [A, member("b", 2, 3, 4)], "PartitionsChanged", 0),
        ([A, B], [A, B], "MemberRejoined", 0),
    ],
)
def test_a_rebalance_between_two_snapshots_has_the_most_likely_cause(
    before: list[dict[str, Any]], after: list[dict[str, Any]], trigger: str, moved: int
) -> None:
    (found,) = inferred_rebalances([snapshot(4, *before), snapshot(5, *after)])
    assert (found["trigger"], found["partitions_moved"], found["inferred"]) == (trigger, moved, True)
    assert (found["gen_from"], found["gen_to"]) == (4, 5)
    assert (found["members_before"], found["members_after"]) == (len(before), len(after))


def test_snapshots_of_one_generation_are_no_rebalance() -> None:
    assert list(inferred_rebalances([snapshot(4, A), snapshot(4, A, at=9_000)])) == []


def test_a_session_lasts_from_the_first_snapshot_with_a_member_to_the_first_without() -> None:
    told = [snapshot(1, A), snapshot(2, A, B), snapshot(3, B)]
    found = {one["member_id"]: one for one in sessions(told, {})}
    assert (found["a"]["joined"], found["a"]["left"], found["a"]["rebalances"]) == (1_000, 3_000, 2)
    assert "inferred" in found["a"]["reason"]
    assert (found["b"]["joined"], found["b"]["left"], found["b"]["rebalances"]) == (2_000, None, 2)


def test_the_journal_knows_when_and_why_a_session_ended() -> None:
    (found,) = sessions([snapshot(1, A), snapshot(2)], {"a": (1_500, "a left")})
    assert (found["left"], found["reason"]) == (1_500, "a left")


MINUTE = 60_000


def group(**given: Any) -> dict[str, Any]:  # noqa: ANN401
    base = {"group_id": "g", "members": [], "rebalances": [], "sessions": []}
    return base | {"state": "Stable", "partitions": {}} | given


def rebalance(at: int) -> dict[str, Any]:
    return {"start_ts": at, "end_ts": at + 1_000, "trigger": "SessionExpired"}


def session(joined: int, left: int | None) -> dict[str, Any]:
    return {"client_id": "c", "instance_id": None, "joined": joined, "left": left}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (group(rebalances=[rebalance(n * MINUTE) for n in range(5)]), ["STORM"]),
        (group(rebalances=[rebalance(n * 3 * MINUTE) for n in range(5)]), []),
        (group(sessions=[session(n * MINUTE, (n + 1) * MINUTE) for n in range(3)]), ["FLAPPING"]),
        (group(sessions=[session(n * MINUTE, None) for n in range(3)]), []),  # three side by side
        (group(members=[member("a", 0), member("b")]), ["IDLE_MEMBER"]),
        (group(members=[member("a", *range(7)), *(member(n, 9) for n in "bcd")]), ["HOT_MEMBER"]),
        (group(members=[member("a", 0), member("b", 1) | {"subscribed": ["t", "u"]}]), ["UNASSIGNED_TOPIC"]),
        (group(members=[A, B], partitions={"t": 4, "u": 9}), []),  # "u" is not theirs
        (group(members=[A, B], partitions={"t": 5}), ["UNOWNED_PARTITIONS"]),
        (group(members=[A, B], partitions={"t": 5}, state="Reconciling"), []),
    ],
)
def test_findings_are_what_the_rules_say(given: dict[str, Any], expected: list[str]) -> None:
    found = list(findings_of(given))
    assert [one["finding"] for one in found] == expected
    assert {one["rule"] for one in found} <= {rule.number for rule in RULES}


def test_a_storm_says_its_causes_in_their_order_and_partitions_without_an_owner_are_named() -> None:
    causes = ["MemberJoined", "SessionExpired", "SessionExpired", "MemberJoined", "MemberLeft"]
    rebalances = [rebalance(n * MINUTE) | {"trigger": cause} for n, cause in enumerate(causes)]
    storm, unowned = findings_of(group(rebalances=rebalances, members=[A, B], partitions={"t": 6}))
    assert storm["sentence"] == (
        "5 rebalances in 241 s: MemberJoined (2), SessionExpired (2), MemberLeft (1); "
        "in order: MemberJoined → SessionExpired (2 times) → MemberJoined → MemberLeft"
    )
    assert unowned["sentence"] == "no member has 2 partitions of t: 4, 5"


def test_runs_are_stretches_of_close_neighbours() -> None:
    assert list(runs([0, 1, 2, 50, 51, 52, 53, 99], 3, 5)) == [range(3), range(3, 7)]
    assert list(runs([], 3, 5)) == []
