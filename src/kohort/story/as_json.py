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


def _rebalance(told: Rebalance) -> Json:
    return {
        "kind": told.kind.value,
        "started_at": told.started_at,
        "cause": dict(told.cause),
        "end": told.end.value,
        "ended_at": told.ended_at,
        "end_cause": None if told.end_cause is None else dict(told.end_cause),
        "generation_before": told.generation_before,
        "generation": told.generation,
        "protocol": told.protocol,
        "cooperative": told.is_cooperative,
        "leader": told.leader,
        "preparing_ms": told.preparing_ms,
        "prepared_by": None if told.prepared_by is None else dict(told.prepared_by),
        "completing_ms": told.completing_ms,
        "total_ms": told.total_ms,
        **_people(told),
        **_partitions(told),
        "advice": advice(told),
        "partial": told.is_partial,
        "dropped": told.dropped,
    }


def _people(told: Rebalance) -> Json:
    last = told.last_arrival
    return {
        "joined": [
            {**_arrival(one), "new": one.is_new, "reason": one.reason} for one in told.arrivals.values()
        ],
        "last_joined": None if last is None else {"member_id": last[0].member_id, "behind_ms": last[1]},
        "delays": [{"after_ms": one.after_ms, "sentence": one.sentence} for one in told.delays],
        "removed": [_removal(one) for one in told.removals],
        "replaced": [
            {"instance_id": one.instance_id, "from": one.old_member_id, "to": one.member_id}
            for one in told.replacements
        ],
        "unused_ids": [_removal(one) for one in told.unused_ids],
        "synced": [_arrival(one) for one in told.syncs],
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
            for one in told.revocations
        ],
        "awaited": list(told.awaited),
        "members": list(told.members),
        "members_added": list(told.members_added),
        "members_removed": list(told.members_removed),
    }


def _arrival(one: Arrival) -> Json:
    return {"member_id": one.member_id, "after_ms": one.after_ms}


def _removal(one: Removal) -> Json:
    return {"member_id": one.member_id, "after_ms": one.after_ms, "cause": dict(one.cause)}


def _partitions(told: Rebalance) -> Json:
    return {
        "assignment_known": told.is_assignment_known,
        "moved": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "from": one.before,
                "to": one.after,
            }
            for one in told.moves
        ],
        "stayed": told.stayed,
        "without_owner": [_unowned(one) for one in told.unowned],
        "longest_without_owner_ms": told.longest_unowned_ms,
        "without_owner_ms": told.unowned_ms,
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
