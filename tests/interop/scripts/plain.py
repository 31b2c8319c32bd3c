"""Answers as plain values, with everything that may differ between two brokers replaced by a name.

What may differ is listed in ``RULES`` and nowhere else: whatever no rule names must be equal. Replaced values
keep their identity inside a script: the first member id is ``<uuid 1>`` wherever it comes back.
"""

import re
import time
from collections.abc import Callable
from typing import Any, Final

from tests.interop.scripts.exchange import Answer, Closed, NoReply, Reply

from kohort.codec.schema import Primitive, Struct
from kohort.records.batch import batches, read_records

Plain = Any  # what JSON can hold
Raw = Any  # what a message holds
UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ZERO_UUID: Final = bytes(16)
TODAY_MS: Final = int((time.time() - 86_400) * 1000)


class Names:
    """Stand-ins for values a broker invents, numbered in order of first appearance."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, object], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, value: object, owner: str | None = None) -> str:
        """The name of this value; a new one is named after its owner, or numbered."""
        if (kind, value) not in self._known:
            stem = kind if owner is None else f"{kind} of {owner}"
            count = self._counts[stem] = self._counts.get(stem, 0) + 1
            number = f" {count}" if owner is None or count > 1 else ""
            self._known[kind, value] = f"<{stem}{number}>"
        return self._known[kind, value]


Rule = Callable[[Raw, Names], Plain]


def _invented(kind: str, ordinary: tuple[object, ...]) -> Rule:
    return lambda value, names: _value(value, 0, names) if value in ordinary else names.of(kind, value)


def _throttle(_value: Raw, _names: Names) -> Plain:
    return 0


def _host(value: Raw, _names: Names) -> Plain:
    return "<host>" if value else value


def _port(value: Raw, _names: Names) -> Plain:
    return "<port>" if value > 0 else value


def _node(value: Raw, _names: Names) -> Plain:
    return "<node>" if value >= 0 else value


def _nodes(value: Raw, _names: Names) -> Plain:
    return ["<node>"] * len(value)


def _time(value: Raw, _names: Names) -> Plain:
    """Times of today are the broker's clock; the scripts themselves use older ones."""
    return "<time>" if value > TODAY_MS else value


def _words(_value: Raw, _names: Names) -> Plain:
    """Whether and how a broker explains itself in words is its own affair; programs look at the code."""
    return "<words>"


def _size(value: Raw, _names: Names) -> Plain:
    return "<size>" if value >= 0 else value


def _resource(value: Raw, _names: Names) -> Plain:
    """A broker is named by its id; topics keep their names."""
    return "<broker>" if value.isdecimal() else value


# By the name of the field, in whatever message.
RULES: Final[dict[str, Rule]] = {
    "throttle_time_ms": _throttle,
    "host": _host,
    "port": _port,
    "node_id": _node,
    "leader_id": _node,
    "controller_id": _node,
    "broker_id": _node,
    "replica_nodes": _nodes,
    "isr_nodes": _nodes,
    "cluster_id": lambda _value, _names: "<cluster>",
    "topic_id": _invented("id", (ZERO_UUID,)),
    "producer_id": _invented("producer", (-1,)),
    "session_id": _invented("session", (0,)),
    "log_append_time_ms": _time,
    "finalized_features_epoch": _invented("metadata epoch", (-1,)),
    "error_message": _words,
    "batch_index_error_message": _words,
    "resource_name": _resource,
    "log_dir": lambda _value, _names: "<directory>",
    "total_bytes": _size,
    "usable_bytes": _size,
    "documentation": _words,
}

# Arrays whose order the protocol leaves open, with the field that identifies an entry.
KEYED: Final[dict[tuple[str, str], str]] = {
    ("ApiVersionsResponse", "api_keys"): "api_key",
    ("ApiVersionsResponse", "supported_features"): "name",
    ("ApiVersionsResponse", "finalized_features"): "name",
    ("MetadataResponse", "topics"): "name",
    ("MetadataResponseTopic", "partitions"): "partition_index",
    ("ListGroupsResponse", "groups"): "group_id",
    ("DescribedGroup", "members"): "member_id",
    ("JoinGroupResponse", "members"): "member_id",
    ("DescribeConfigsResult", "configs"): "name",
    ("DescribeGroupsResponse", "groups"): "group_id",
    ("CreatableTopicResult", "configs"): "name",
    ("CreateTopicsResponse", "topics"): "name",
    ("DeleteGroupsResponse", "results"): "group_id",
    ("DescribeLogDirsResult", "topics"): "name",
    ("DescribeLogDirsTopic", "partitions"): "partition_index",
    ("OffsetFetchResponse", "topics"): "name",
    ("OffsetFetchResponseGroup", "topics"): "name",
    ("OffsetFetchResponseTopic", "partitions"): "partition_index",
    ("OffsetFetchResponseTopics", "partitions"): "partition_index",
    ("ListOffsetsResponse", "topics"): "name",
    ("OffsetCommitResponse", "topics"): "name",
    ("OffsetCommitResponseTopic", "partitions"): "partition_index",
    ("OffsetDeleteResponse", "topics"): "name",
    ("OffsetDeleteResponseTopic", "partitions"): "partition_index",
    ("FetchResponse", "responses"): "topic",
    ("FetchableTopicResponse", "partitions"): "partition_index",
    ("ProduceResponse", "responses"): "name",
    ("TopicProduceResponse", "partition_responses"): "index",
    ("ListOffsetsTopicResponse", "partitions"): "partition_index",
    ("Assignment", "topic_partitions"): "topic_id",
    ("PartitionResponse", "active_producers"): "producer_id",
}

# Arrays of plain values whose order the protocol leaves open.
SORTED: Final = frozenset({("TopicPartitions", "partitions"), ("Member", "subscribed_topic_names")})


def plain_answer(answer: Answer, names: Names) -> Plain:
    """An answer as JSON-like values."""
    match answer:
        case Closed():
            return "<connection closed>"
        case NoReply():
            return "<no reply>"
        case Reply(message=message, version=version):
            return _struct(message, version, names)


def _struct(value: Struct, version: int, names: Names) -> dict[str, Plain]:
    found = {}
    _name_topic(value, names)
    for each in value.fields:
        if each.versions.includes(version):
            content = getattr(value, each.name)
            if each.type is Primitive.RECORDS:
                found[each.name] = _records(content)
            else:
                found[each.name] = _field(type(value).__name__, each.name, content, version, names)
    return found


def _name_topic(value: Struct, names: Names) -> None:
    """Name a topic's id after the topic, so that ids of topics that were never made shift no numbers."""
    topic_id = getattr(value, "topic_id", ZERO_UUID)
    name = getattr(value, "name", None) or getattr(value, "topic_name", None)
    if topic_id != ZERO_UUID and name:
        names.of("id", topic_id, name)


def _field(owner: str, name: str, content: Raw, version: int, names: Names) -> Plain:
    rule = RULES.get(name)
    if rule is not None and (content is not None or rule is _words):
        return rule(content, names)
    key = KEYED.get((owner, name))
    if key is not None and content is not None:
        return _by_key(content, key, version, names)
    if (owner, name) in SORTED:
        return sorted(content)
    return _value(content, version, names)


def _by_key(entries: list[Struct], key: str, version: int, names: Names) -> dict[str, Plain]:
    """An unordered array as a mapping; a repeated key gets a running number, so that none is lost."""
    found: dict[str, Plain] = {}
    for entry in sorted(entries, key=lambda each: str(getattr(each, key))):
        plain = _struct(entry, version, names)
        label = str(plain[key] if key in plain else plain.get("topic_id"))
        repeats = sum(1 for known in found if known == label or known.startswith(f"{label} #"))
        found[f"{label} #{repeats + 1}" if repeats else label] = plain
    return found


def _value(content: Raw, version: int, names: Names) -> Plain:
    if isinstance(content, Struct):
        return _struct(content, version, names)
    if isinstance(content, list):
        return [_value(each, version, names) for each in content]
    if isinstance(content, str):
        return UUID.sub(lambda found: names.of("uuid", found.group()), content)
    if isinstance(content, bytes | memoryview):
        return bytes(content).hex()
    return content


def _records(content: Raw) -> Plain:
    """Whole batches, field by field: a broker may cut the last one short, and clients must not mind."""
    if content is None:
        return None
    found = []
    blob = bytes(content)
    for position, header in batches(blob):
        if position + header.size > len(blob):
            break
        records = [
            [record.offset, record.timestamp, _text(record.key), _text(record.value)]
            for record in read_records(blob, position, header)
        ]
        found.append(
            {
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "leader_epoch": header.partition_leader_epoch,
                "attributes": header.attributes,
                "crc": header.crc,
                "sequence": header.base_sequence,
                "producer_epoch": header.producer_epoch,
                "records": records,
            }
        )
    return found


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("latin-1")
