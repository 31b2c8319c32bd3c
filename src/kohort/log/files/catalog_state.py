"""What a catalog knows, and the records it is made of: pure, the same live and in replay."""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from json import dumps, loads
from typing import Any

from kohort.log.catalog import UserKey
from kohort.log.security_records import acls_record, credentials_record, read_acl, read_credential
from kohort.model.ids import LeaderEpoch, NodeId, TopicId, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, Topic, collision_key, show_topic_id
from kohort.primitives.crc import crc32c
from kohort.security.acls import Acl
from kohort.security.scram import ScramCredential, ScramMechanism

CATALOG = "kohort.catalog"
_ABOUT_A_TOPIC = frozenset({"topic", "partitions", "topic-configs"})

Record = Mapping[str, Any]  # one JSON object; "type" says which


def encode(record: Record) -> bytes:
    """A line: checksum, space, JSON."""
    text = dumps(record, separators=(",", ":"), sort_keys=True).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def decode(line: bytes) -> Record | None:
    """The record of a line without its newline; ``None`` when the line is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        return None
    record: Record = loads(text)
    return record


class CatalogState:
    """The state after some records."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.node_id = NodeId(-1)
        self.starts = 0
        self.topics: dict[TopicName, Topic] = {}
        self.names: dict[TopicId, TopicName] = {}
        self.collision_keys: dict[str, TopicName] = {}
        self.deleted: dict[TopicId, TopicName] = {}
        self.broker_configs: dict[str, Mapping[str, str]] = {}
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.credentials: dict[UserKey, ScramCredential] = {}
        self.secret = b""
        self.acls: dict[Acl, None] = {}
        self.next_producer_id = 0
        self._births: dict[TopicId, int] = {}  # the start at which the topic's epoch was, or would be, 0

    def leader_epoch(self, topic: Topic) -> LeaderEpoch:
        return LeaderEpoch(self.starts - self._births[topic.topic_id])

    @property
    def offsets_partitions(self) -> int | None:
        """How many partitions ``__consumer_offsets`` has; ``None`` if there is no such topic."""
        topic = self.topics.get(CONSUMER_OFFSETS)
        return None if topic is None else topic.partitions

    def apply(self, record: Record) -> None:
        """Make a record true. Records are facts: they are not checked again.

        A record of a later release says something this one cannot do, and is passed over.
        """
        change = _CHANGES.get(record["type"])
        if change is not None:
            change(self, record)

    def topics_of(self, record: Record) -> Collection[TopicName]:
        """The topics that a record is about to change."""
        if record["type"] == "topic-deleted":
            return (self.names[read_id(record["id"])],)
        return (TopicName(record["name"]),) if record["type"] in _ABOUT_A_TOPIC else ()

    def records(self) -> Iterator[Record]:
        """The fewest records that make this state."""
        yield {"type": "cluster", "cluster_id": self.cluster_id, "node_id": self.node_id}
        yield {"type": "starts", "count": self.starts}
        for topic in self.topics.values():
            yield self.topic_record(topic, self.leader_epoch(topic))
        for topic_id, name in self.deleted.items():
            yield {"type": "topic-leftover", "id": show_topic_id(topic_id), "name": name}
        for resource, configs in self.broker_configs.items():
            if configs:
                yield {"type": "broker-configs", "resource": resource, "configs": configs}
        for group, configs in self.group_configs.items():
            yield {"type": "group-configs", "group": group, "configs": configs}
        if self.credentials:
            yield credentials_record((), self.credentials)
        if self.secret:
            yield {"type": "secret", "value": self.secret.hex()}
        if self.acls:
            yield acls_record((), self.acls)
        yield {"type": "producer-ids", "next": self.next_producer_id}

    def topic_record(self, topic: Topic, epoch: LeaderEpoch) -> Record:
        """The record of a topic whose leader epoch is ``epoch`` now."""
        return {
            "type": "topic",
            "name": topic.name,
            "id": show_topic_id(topic.topic_id),
            "partitions": topic.partitions,
            "configs": dict(topic.configs),
            "born": self.starts - epoch,
        }

    def _identify(self, record: Record) -> None:
        self.cluster_id, self.node_id = record["cluster_id"], NodeId(record["node_id"])

    def _count_start(self, record: Record) -> None:
        self.starts = record["count"]

    def _add_topic(self, record: Record) -> None:
        name, topic_id = TopicName(record["name"]), read_id(record["id"])
        self.topics[name] = Topic(name, topic_id, record["partitions"], record["configs"])
        self.names[topic_id] = name
        self.collision_keys[collision_key(name)] = name
        self._births[topic_id] = record["born"]

    def _delete_topic(self, record: Record) -> None:
        topic_id = read_id(record["id"])
        name = self.names.pop(topic_id)
        del self.topics[name], self._births[topic_id], self.collision_keys[collision_key(name)]
        self.deleted[topic_id] = name

    def _keep_leftover(self, record: Record) -> None:
        self.deleted[read_id(record["id"])] = TopicName(record["name"])

    def _forget_leftovers(self, record: Record) -> None:
        for text in record["ids"]:
            self.deleted.pop(read_id(text), None)

    def _add_partitions(self, record: Record) -> None:
        name = TopicName(record["name"])
        self.topics[name] = replace(self.topics[name], partitions=record["total"])

    def _set_topic_configs(self, record: Record) -> None:
        name = TopicName(record["name"])
        self.topics[name] = replace(self.topics[name], configs=record["configs"])

    def _set_broker_configs(self, record: Record) -> None:
        self.broker_configs[record["resource"]] = record["configs"]

    def _set_group_configs(self, record: Record) -> None:
        if record["configs"]:
            self.group_configs[record["group"]] = record["configs"]
        else:
            self.group_configs.pop(record["group"], None)

    def _change_credentials(self, record: Record) -> None:
        for user, mechanism in record["removed"]:
            self.credentials.pop((user, ScramMechanism(mechanism)), None)
        for one in record["stored"]:
            user_key, credential = read_credential(one)
            self.credentials[user_key] = credential

    def _set_secret(self, record: Record) -> None:
        self.secret = bytes.fromhex(record["value"])

    def _change_acls(self, record: Record) -> None:
        for one in record["removed"]:
            self.acls.pop(read_acl(one), None)
        for one in record["added"]:
            self.acls[read_acl(one)] = None

    def _reserve_producer_ids(self, record: Record) -> None:
        self.next_producer_id = record["next"]


_CHANGES: Mapping[str, Callable[[CatalogState, Record], None]] = {
    "cluster": CatalogState._identify,
    "starts": CatalogState._count_start,
    "topic": CatalogState._add_topic,
    "topic-deleted": CatalogState._delete_topic,
    "topic-leftover": CatalogState._keep_leftover,
    "topics-forgotten": CatalogState._forget_leftovers,
    "partitions": CatalogState._add_partitions,
    "topic-configs": CatalogState._set_topic_configs,
    "broker-configs": CatalogState._set_broker_configs,
    "group-configs": CatalogState._set_group_configs,
    "scram": CatalogState._change_credentials,
    "secret": CatalogState._set_secret,
    "acls": CatalogState._change_acls,
    "producer-ids": CatalogState._reserve_producer_ids,
}


def read_id(text: str) -> TopicId:
    """The id that ``show_topic_id`` wrote."""
    return TopicId(urlsafe_b64decode(text + "=="))
