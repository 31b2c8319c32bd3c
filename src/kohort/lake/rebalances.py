"""Rebalances of one group, from the journal, or inferred from snapshots where there is none. Pure Python."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from kohort.story.documents import read_document
from kohort.story.rebalance import End, Rebalance
from kohort.story.tell import tell

Row = Mapping[str, Any]
Made = dict[str, Any]

# The kinds of inferred causes; the rules of docs/reference/group-lake.md number them in this order.
EMPTIED: Final = "GroupEmptied"
FIRST: Final = "GroupFormed"
REPLACED: Final = "StaticMemberReturned"
RESTARTED: Final = "MemberRestarted"
JOINED: Final = "MemberJoined"
SWAPPED: Final = "MembersJoinedAndLeft"
LEFT: Final = "MemberLeft"
SUBSCRIPTION: Final = "SubscriptionChanged"
PARTITIONS: Final = "PartitionsChanged"
REJOINED: Final = "MemberRejoined"


def journaled_rebalances(group_id: str, documents: Iterable[bytes]) -> list[Made]:
    """Rebalances as the journal tells them, from its documents in their order."""
    read = (read_document(document) for document in documents)
    story = tell(group_id, (document for document in read if document is not None))
    return [_rebalance_row(group_id, number, one) for number, one in enumerate(story.rebalances)]


def _rebalance_row(group_id: str, number: int, rebalance: Rebalance) -> Made:
    is_known = rebalance.end is not End.RUNNING and rebalance.is_assignment_known
    return {
        "group_id": group_id,
        "rebalance_id": number,
        "start_ts": rebalance.started_at,
        "end_ts": rebalance.ended_at,
        "gen_from": rebalance.generation_before,
        "gen_to": rebalance.generation,
        "trigger": rebalance.cause["kind"],
        "cause": rebalance.cause["sentence"],
        "inferred": False,
        "members_before": len(rebalance.members_before),
        "members_after": len(rebalance.members),
        "partitions_moved": len(rebalance.moves) if is_known else None,
        "partitions_idle_ms": rebalance.unowned_ms if is_known else None,
        "join_ms": rebalance.preparing_ms,
        "sync_ms": rebalance.completing_ms,
        "result": rebalance.end.value,
    }


def inferred_rebalances(snapshots: Sequence[Row]) -> Iterator[Made]:
    """One rebalance between two snapshots of other generations, in the order of ``src_offset``."""
    before = _nothing(snapshots[0]) if snapshots and snapshots[0]["generation"] == 1 else None
    row = ([before] if before is not None else []) + [dict(each) for each in snapshots]
    number = 0
    for old, new in pairwise(row):
        is_next = old["generation"] is not None and new["generation"] is not None
        if not is_next or new["generation"] <= old["generation"]:
            continue
        yield _inferred(number, old, new)
        number += 1


def _nothing(first: Row) -> dict[str, Any]:
    """Before the first generation there were no members."""
    return dict(first) | {"generation": 0, "members": []}


def _inferred(number: int, old: Row, new: Row) -> Made:
    trigger, cause = _cause(old, new)
    owners_before, owners_after = _owners(old), _owners(new)
    moved = sum(
        _same_member(old, new).get(owner, owner) != owners_after.get(partition)
        for partition, owner in owners_before.items()
    )
    since = new["since"]
    return {
        "group_id": new["group_id"],
        "rebalance_id": number,
        "start_ts": new["ts"] if since is None else min(since, new["ts"]),
        "end_ts": new["ts"],
        "gen_from": old["generation"],
        "gen_to": new["generation"],
        "trigger": trigger,
        "cause": cause,
        "inferred": True,
        "members_before": len(old["members"]),
        "members_after": len(new["members"]),
        "partitions_moved": moved,
        "partitions_idle_ms": None,
        "join_ms": None,
        "sync_ms": None if since is None else max(0, new["ts"] - since),
        "result": (End.STABLE if new["members"] else End.EMPTY).value,
    }


def _same_member(old: Row, new: Row) -> dict[str, str]:
    """Ids of static members that came back under another id, by the old one."""
    now = {one["instance_id"]: one["member_id"] for one in new["members"] if one["instance_id"]}
    return {one["member_id"]: now[one["instance_id"]] for one in old["members"] if one["instance_id"] in now}


def _owners(snapshot: Row) -> dict[tuple[str, int], str]:
    return {
        (each["topic"], each["partition"]): member["member_id"]
        for member in snapshot["members"]
        for each in member["assigned"]
    }


def _cause(old: Row, new: Row) -> tuple[str, str]:
    """The most likely cause, by numbered rules; the first that fits."""
    renamed = _same_member(old, new)
    before = {one["member_id"]: one for one in old["members"]}
    after = {one["member_id"]: one for one in new["members"]}
    came = [one for name, one in after.items() if name not in before and name not in renamed.values()]
    went = [one for name, one in before.items() if name not in after and name not in renamed]
    if not after:
        return EMPTIED, f"the last of {_count(before)} left or was removed"
    if not before:
        return FIRST, f"{_count(after)} formed the group"
    if any(old_id != new_id for old_id, new_id in renamed.items()) and not came and not went:
        return REPLACED, "a static member came back under a new member id"
    if came and went:
        return _restarted_or_swapped(came, went)
    if came:
        return JOINED, f"{_names(came)} joined"
    if went:
        return LEFT, f"{_names(went)} left or was removed"
    return _same_people(before, after, old, new)


def _restarted_or_swapped(came: Sequence[Row], went: Sequence[Row]) -> tuple[str, str]:
    def clients(members: Sequence[Row]) -> list[tuple[str, str]]:
        return sorted((one["client_id"], one["host"]) for one in members)

    if clients(came) == clients(went):
        return RESTARTED, f"{_names(came)} came back under a new member id"
    return SWAPPED, f"{_names(came)} joined, {_names(went)} left or was removed"


def _same_people(before: Mapping[str, Row], after: Mapping[str, Row], old: Row, new: Row) -> tuple[str, str]:
    changed = [
        one
        for name, one in after.items()
        if name in before and one["subscribed"] != before[name]["subscribed"]
    ]
    if changed:
        return SUBSCRIPTION, f"{_names(changed)} subscribes to other topics"
    counts = len(_owners(old)), len(_owners(new))
    if counts[0] != counts[1]:
        return PARTITIONS, f"{counts[1]} partitions are assigned instead of {counts[0]}"
    return REJOINED, "a member joined again, or the leader asked for a new assignment"


def _names(members: Sequence[Row]) -> str:
    return ", ".join(sorted(one["client_id"] or one["member_id"] for one in members))


def _count(members: Mapping[str, object]) -> str:
    return "1 member" if len(members) == 1 else f"{len(members)} members"


def sessions(snapshots: Iterable[Row], removals: Mapping[str, tuple[int, str]]) -> Iterator[Made]:
    """From when to when each member id was in the group. ``removals``: when and why the journal saw it go."""
    there: dict[str, Made] = {}
    for snapshot in snapshots:
        members = {one["member_id"]: one for one in snapshot["members"]}
        for gone in [name for name in there if name not in members]:
            session = there.pop(gone)
            left, reason = removals.get(gone, (snapshot["ts"], "not in the next generation (inferred)"))
            yield session | {"left": left, "reason": reason}
        for name, member in members.items():
            session = there.setdefault(name, _joined(snapshot, member))
            if session["generation"] != snapshot["generation"]:
                session["generation"] = snapshot["generation"]
                session["rebalances"] += 1
    yield from there.values()


def _joined(snapshot: Row, member: Row) -> Made:
    return {
        "group_id": snapshot["group_id"],
        "member_id": member["member_id"],
        "instance_id": member["instance_id"],
        "client_id": member["client_id"],
        "joined": snapshot["ts"],
        "left": None,
        "reason": None,
        "rebalances": 1,
        "generation": snapshot["generation"],
    }
