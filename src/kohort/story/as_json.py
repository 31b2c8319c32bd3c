"""A story as JSON-able values, with full member ids; ``docs/howto/explain-a-rebalance.md`` has the keys."""

from kohort.story.advice import advice
from kohort.story.names import short_names
from kohort.story.rebalance import Arrival, Rebalance, Removal, Story, Unowned

Json = dict[str, object]


def story_json(story: Story) -> Json:
    """The whole story; spans in milliseconds, times in milliseconds since 1970."""
    names = short_names(story.people)
    return {
        "group": story.group_id,
        "removed": None if story.removed is None else dict(story.removed),
        "people": [
            {
                "member_id": one.member_id,
                "name": names[one.member_id],
                "client_id": one.client_id,
                "host": one.host,
                "instance_id": one.instance_id,
            }
            for one in story.people.values()
        ],
        "rebalances": [_rebalance(one) for one in story.rebalances],
        "incidents": [
            {"at": one.at, "event": one.event, "sentence": one.sentence} for one in story.incidents
        ],
        "without_owner": [_unowned(one) for one in story.unowned],
        "journal": {
            "first_at": story.first_at,
            "dropped": story.dropped,
            "unreadable": story.unreadable,
        },
    }


def _rebalance(rebalance: Rebalance) -> Json:
    return {
        "kind": rebalance.kind.value,
        "started_at": rebalance.started_at,
        "cause": dict(rebalance.cause),
        "end": rebalance.end.value,
        "ended_at": rebalance.ended_at,
        "end_cause": None if rebalance.end_cause is None else dict(rebalance.end_cause),
        "generation_before": rebalance.generation_before,
        "generation": rebalance.generation,
        "protocol": rebalance.protocol,
        "cooperative": rebalance.is_cooperative,
        "leader": rebalance.leader,
        "preparing_ms": rebalance.preparing_ms,
        "prepared_by": None if rebalance.prepared_by is None else dict(rebalance.prepared_by),
        "completing_ms": rebalance.completing_ms,
        "total_ms": rebalance.total_ms,
        **_people(rebalance),
        **_partitions(rebalance),
        "advice": advice(rebalance),
        "partial": rebalance.is_partial,
        "dropped": rebalance.dropped,
    }


def _people(rebalance: Rebalance) -> Json:
    last = rebalance.last_arrival
    return {
        "joined": [
            {**_arrival(one), "new": one.is_new, "reason": one.reason} for one in rebalance.arrivals.values()
        ],
        "last_joined": None if last is None else {"member_id": last[0].member_id, "behind_ms": last[1]},
        "delays": [{"after_ms": one.after_ms, "sentence": one.sentence} for one in rebalance.delays],
        "removed": [_removal(one) for one in rebalance.removals],
        "replaced": [
            {"instance_id": one.instance_id, "from": one.old_member_id, "to": one.member_id}
            for one in rebalance.replacements
        ],
        "unused_ids": [_removal(one) for one in rebalance.unused_ids],
        "synced": [_arrival(one) for one in rebalance.syncs],
        "revocations": [
            {
                "member_id": one.member_id,
                "partitions": [
                    {"topic": each.topic, "partition": each.partition} for each in sorted(one.partitions)
                ],
                "waiting": list(one.waiting),
                "asked_after_ms": one.asked_after_ms,
                "given_after_ms": one.given_after_ms,
            }
            for one in rebalance.revocations
        ],
        "awaited": list(rebalance.awaited),
        "members": list(rebalance.members),
        "members_added": list(rebalance.members_added),
        "members_removed": list(rebalance.members_removed),
    }


def _arrival(one: Arrival) -> Json:
    return {"member_id": one.member_id, "after_ms": one.after_ms}


def _removal(one: Removal) -> Json:
    return {"member_id": one.member_id, "after_ms": one.after_ms, "cause": dict(one.cause)}


def _partitions(rebalance: Rebalance) -> Json:
    return {
        "assignment_known": rebalance.is_assignment_known,
        "moved": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "from": one.before,
                "to": one.after,
            }
            for one in rebalance.moves
        ],
        "stayed": rebalance.stayed,
        "without_owner": [_unowned(one) for one in rebalance.unowned],
        "longest_without_owner_ms": rebalance.longest_unowned_ms,
        "without_owner_ms": rebalance.unowned_ms,
    }


def _unowned(one: Unowned) -> Json:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "was": one.was,
        "lost": one.lost.value,
        "owner": one.owner,
        "since": one.since,
        "until": one.until,
        "ms": None if one.until is None else one.until - one.since,
        "at_most": one.at_most,
    }
