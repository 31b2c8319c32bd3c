"""Groups as they were stored, one after the other: a fold over the records of one group. Pure Python."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kohort.codec.compiled import DecodeError, decode
from kohort.lake.columns import GROUP_METADATA
from kohort.wire.messages.consumer_protocol import ConsumerProtocolSubscription

Row = Mapping[str, Any]
Snapshot = dict[str, Any]

_CLASSIC, _CONSUMER = "classic", "consumer"
_EMPTY, _STABLE, _DEAD, _RECONCILING, _ASSIGNING = "Empty", "Stable", "Dead", "Reconciling", "Assigning"
_MEMBER = "consumer_group_member_metadata"
_TARGET = "consumer_group_target_assignment_metadata"
_CURRENT = "consumer_group_current_member_assignment"
_EPOCH = "consumer_group_metadata"
# After these the group is shown again; the others only say something about a member.
_TELLING = frozenset({_EPOCH, _CURRENT, _TARGET})


def snapshots(records: Iterable[Row], topic_names: Mapping[str, str]) -> Iterator[Snapshot]:
    """Snapshots of one group from its records in the order of ``src_offset``; commits are passed over.

    Topics of consumer groups are stored as ids: one that ``topic_names`` does not have keeps its id as name.
    """
    modern = _ConsumerGroup(topic_names)
    for record in records:
        kind = record["kind"]
        if record.get("problem"):
            continue
        if kind == GROUP_METADATA:
            modern = _ConsumerGroup(topic_names)
            yield _classic(record)
        elif kind.startswith("consumer_group_"):
            modern.hear(record)
            if kind in _TELLING:
                yield modern.snapshot(record)


def _base(record: Row, group_type: str) -> Snapshot:
    return {
        "group_id": record["group_id"],
        "protocol": None,
        "group_type": group_type,
        "state": _DEAD,
        "generation": None,
        "leader": None,
        "members": [],
        "since": None,
        "ts": record["ts"],
        "src_partition": record["src_partition"],
        "src_offset": record["src_offset"],
    }


def _classic(record: Row) -> Snapshot:
    snapshot = _base(record, _CLASSIC)
    if record["tombstone"]:
        return snapshot
    group = json.loads(record["details"])
    since = group["currentStateTimestamp"]
    return snapshot | {
        "protocol": group["protocol"],
        "state": _STABLE if group["members"] else _EMPTY,
        "generation": group["generation"],
        "leader": group["leader"],
        "since": None if since < 0 else since,
        "members": [
            {
                "member_id": one["memberId"],
                "instance_id": one["groupInstanceId"],
                "client_id": one["clientId"],
                "host": one["clientHost"],
                "session_timeout_ms": one["sessionTimeout"],
                "subscribed": list(subscribed_topics(one["subscription"])),
                "assigned": [{"topic": topic, "partition": number} for topic, number in one["partitions"]],
            }
            for one in group["members"]
        ],
    }


def subscribed_topics(subscription: str) -> tuple[str, ...]:
    """The topics in a consumer's subscription, from base64; none if it is not a consumer's."""
    from base64 import b64decode

    blob = b64decode(subscription)
    version = int.from_bytes(blob[:2], "big", signed=True)
    try:
        known = min(version, ConsumerProtocolSubscription.versions.last)
        return tuple(sorted(decode(ConsumerProtocolSubscription, known, blob, 2).topics))
    except DecodeError:
        return ()  # not a consumer's: a connector, a schema registry


class _ConsumerGroup:
    """What the records of a KIP-848 group have said so far."""

    def __init__(self, topic_names: Mapping[str, str]) -> None:
        self._names = topic_names
        self._epoch: int | None = None
        self._target = -1
        self._members: dict[str, dict[str, Any]] = {}
        self._current: dict[str, dict[str, Any]] = {}

    def hear(self, record: Row) -> None:
        member, gone = record.get("member_id"), record["tombstone"]
        value = {} if gone else json.loads(record["details"])
        match record["kind"]:
            case kind if kind == _EPOCH:
                self._epoch = None if gone else value["epoch"]
            case kind if kind == _TARGET:
                self._target = -1 if gone else value["assignmentEpoch"]
            case kind if kind == _MEMBER:
                _put(self._members, member, None if gone else value)
            case kind if kind == _CURRENT:
                _put(self._current, member, None if gone else value)

    def snapshot(self, record: Row) -> Snapshot:
        state = _DEAD
        if self._epoch is not None:
            epochs = {self._current.get(name, {}).get("memberEpoch") for name in self._members}
            state = _RECONCILING
            if not self._members:
                state = _EMPTY
            elif self._target != self._epoch:
                state = _ASSIGNING
            elif epochs == {self._epoch} and not any(one["state"] for one in self._current.values()):
                state = _STABLE
        members = [self._member(name, value) for name, value in sorted(self._members.items())]
        return _base(record, _CONSUMER) | {"state": state, "generation": self._epoch, "members": members}

    def _member(self, member_id: str, value: Mapping[str, Any]) -> dict[str, Any]:
        owned = self._current.get(member_id, {}).get("assignedPartitions", ())
        classic = value["classicMemberMetadata"]
        return {
            "member_id": member_id,
            "instance_id": value["instanceId"],
            "client_id": value["clientId"],
            "host": value["clientHost"],
            "session_timeout_ms": None if classic is None else classic["sessionTimeoutMs"],
            "subscribed": value["subscribedTopicNames"],
            "assigned": [
                {"topic": self._names.get(topic["topicId"], topic["topicId"]), "partition": number}
                for topic in owned
                for number in topic["partitions"]
            ],
        }


def _put(values: dict[str, dict[str, Any]], member: str | None, value: dict[str, Any] | None) -> None:
    if member is None:
        return
    if value is None:
        values.pop(member, None)
    else:
        values[member] = value
