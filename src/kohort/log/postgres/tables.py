"""The rows of a cluster as a view: each change makes another one, without reading all rows again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from json import loads
from typing import Any

from kohort.cluster.lease import SessionId
from kohort.cluster.view import (
    ChangeReason,
    ClusterSnapshot,
    LeaderChange,
    ListenerAddress,
    PartitionId,
    PartitionKind,
    Placed,
    PlacedNode,
    PlacedTopic,
)
from kohort.log.catalog import UserKey
from kohort.log.security_records import read_acl, read_credential
from kohort.model.ids import LeaderEpoch, NodeId, TopicId, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, JOURNAL, Topic
from kohort.security.acls import Acl
from kohort.security.scram import ScramCredential

_REASONS = frozenset(each.value for each in ChangeReason)


class Secrets:
    """Credentials, ACLs, and the secret of the cluster. Who holds a mapping sees its changes."""

    def __init__(self) -> None:
        self.credentials: dict[UserKey, ScramCredential] = {}
        self.acls: dict[Acl, None] = {}
        self.secret = b""

    def read(self, record: Mapping[str, Any]) -> None:
        """Replace what a record is about; each holds all of its kind."""
        match record["type"]:
            case "scram":
                self.credentials.clear()
                self.credentials.update(map(read_credential, record["stored"]))
            case "acls":
                self.acls.clear()
                self.acls.update(dict.fromkeys(map(read_acl, record["added"])))
            case "secret":
                self.secret = bytes.fromhex(record["value"])


class Tables:
    """Topics, partitions and configs, kept up to date by the rows that changed."""

    def __init__(self) -> None:
        self.version = -1
        self.topics: dict[TopicName, Topic] = {}
        self._names: dict[TopicId, TopicName] = {}
        self._placed: dict[TopicId, dict[int, Placed]] = {}
        self._owners: dict[PartitionId, TopicId] = {}
        self._configs: dict[str, dict[str, Mapping[str, str]]] = {"broker": {}, "group": {}}

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self.topics[name]

    def set_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a broker or group; the mapping is another one then."""
        changed = {key: value for key, value in self._configs[kind].items() if key != name}
        self._configs[kind] = {**changed, name: configs} if configs or kind == "broker" else changed

    def read(
        self,
        version: int,
        sessions: Sequence[Any],
        topics: Sequence[Any],
        partitions: Sequence[Any],
        old: ClusterSnapshot,
    ) -> ClusterSnapshot:
        """The view after rows of these tables have changed."""
        changed = self._read_topics(topics) | self._read_partitions(partitions)
        if CONSUMER_OFFSETS in changed and JOURNAL in self.topics:
            changed.add(JOURNAL)  # its partitions move with those
        self.version = version
        placed_topics = dict(old.topics)
        for name in changed:
            topic = self.topics.get(name)
            if topic is None or len(self._placed[topic.topic_id]) < topic.partitions:
                placed_topics.pop(name, None)
            else:
                placed_topics[name] = self._placed_topic(topic)
        return ClusterSnapshot(
            version=version,
            nodes={row["session"]: _node(row) for row in sessions},
            partitions={
                each.partition_id: each for topic in placed_topics.values() for each in topic.partitions
            },
            topics=placed_topics,
            broker_configs=self._configs["broker"],
            group_configs=self._configs["group"],
        )

    def _read_topics(self, rows: Sequence[Any]) -> set[TopicName]:
        changed: set[TopicName] = set()
        for row in sorted(rows, key=lambda row: not row["deleted"]):  # a name may be in use again
            topic_id, name = TopicId(row["topic_id"].bytes), TopicName(row["name"])
            changed.add(name)
            if not row["deleted"]:
                self.topics[name] = Topic(name, topic_id, row["partitions"], loads(row["configs"]))
                self._names[topic_id] = name
                self._placed.setdefault(topic_id, {})
            elif self._names.pop(topic_id, None) is not None:
                del self.topics[name]
                self._placed.pop(topic_id, None)
        return changed

    def _read_partitions(self, rows: Sequence[Any]) -> set[TopicName]:
        changed: set[TopicName] = set()
        for row in rows:
            topic_id = TopicId(row["topic_id"].bytes)
            name = self._names.get(topic_id)
            if name is not None:
                changed.add(name)
                self._placed[topic_id][row["partition"]] = Placed(
                    PartitionId(row["partition_id"]),
                    PartitionKind.SHARD if name in INTERNAL_TOPICS else PartitionKind.DATA,
                    None if row["leader"] is None else SessionId(row["leader"]),
                    LeaderEpoch(row["leader_epoch"]),
                    LeaderEpoch(row["served_epoch"]),
                    assigned=None if row["assigned"] is None else NodeId(row["assigned"]),
                    change=_change(row),
                )
        return changed

    def _placed_topic(self, topic: Topic) -> PlacedTopic:
        placed = self._placed[topic.topic_id]
        partitions = [placed[index] for index in range(topic.partitions)]
        offsets = self.topics.get(CONSUMER_OFFSETS)
        if topic.name == JOURNAL and offsets is not None:
            shards = self._placed[offsets.topic_id]
            partitions = [
                each._replace(moves_with=shards[index].partition_id) if index in shards else each
                for index, each in enumerate(partitions)
            ]
        return PlacedTopic(topic, partitions)


def without_leader(view: ClusterSnapshot, hidden: Collection[PartitionId]) -> ClusterSnapshot:
    """The view with some partitions led by no one."""
    if not hidden:
        return view
    topics = {
        name: topic._replace(
            partitions=[
                each._replace(leader=None) if each.partition_id in hidden else each
                for each in topic.partitions
            ]
        )
        if any(each.partition_id in hidden for each in topic.partitions)
        else topic
        for name, topic in view.topics.items()
    }
    partitions = {each.partition_id: each for topic in topics.values() for each in topic.partitions}
    return replace(view, topics=topics, partitions=partitions)


def _node(row: Any) -> PlacedNode:  # noqa: ANN401 - a row of the driver
    return PlacedNode(
        SessionId(row["session"]),
        NodeId(row["node_id"]),
        row["state"] == "leaving",
        row["host"],
        row["port"],
        row["rack"],
        tuple(ListenerAddress(name, *where) for name, where in loads(row["listeners"]).items()),
    )


def _change(row: Any) -> LeaderChange | None:  # noqa: ANN401 - a row of the driver
    """``None`` before the first, and for a reason that only other releases know."""
    if row["reason"] not in _REASONS:
        return None
    from_node = None if row["came_from"] is None else NodeId(row["came_from"])
    return LeaderChange(ChangeReason(row["reason"]), from_node, row["silent_ms"] or 0)
