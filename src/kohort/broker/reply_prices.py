"""What the reply to a small request may cost: about the memory it takes while it is made.

Most replies are about as large as their requests, or have a bound. Those here name everything that there is:
a request of a few bytes can make a reply of many megabytes. The row of the API says which of them it takes.
Dispatch asks before the handler begins: a reply of more than ``LARGE_REPLY`` waits until it is its turn, and
until the budget has room for it.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from kohort.broker.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.offsets.state import OffsetsByTopic
from kohort.model.ids import GroupId

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

LARGE_REPLY = 256 * 1024  # six hundred partitions: some milliseconds

_PARTITION, _GROUP, _OFFSET, _CONFIG, _RIGHT, _PRODUCER = (
    400,
    400,
    500,
    800,
    600,
    300,
)  # bytes: as objects and on the wire
_LOOKED_AT = 2_000  # offsets: some hundred microseconds
_ALL_TOPICS_UNTIL = 0  # the version of Metadata in which no topics are all topics

Price = Callable[["BrokerState", Any, int], int]


def metadata(broker: "BrokerState", request: Any, version: int) -> int:  # noqa: ANN401
    if request.topics is None or (version <= _ALL_TOPICS_UNTIL and not request.topics):
        return _PARTITION * sum(topic.partitions for topic in broker.topics)
    found = (
        broker.topics.get(topic.name) if topic.name is not None else broker.topics.by_id(topic.topic_id)
        for topic in request.topics
    )
    return _PARTITION * sum(topic.partitions for topic in found if topic is not None)


def log_dirs(broker: "BrokerState", request: Any, _: int) -> int:  # noqa: ANN401
    return _PARTITION * sum(len(topic.logs) for topic in broker.topics) if request.topics is None else 0


def describe_producers(broker: "BrokerState", request: Any, _: int) -> int:  # noqa: ANN401
    price = 0
    for name, index in {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}:
        topic = broker.topics.get(name)
        log = None if topic is None else topic.logs.get(index)
        price += 0 if log is None else _PRODUCER * len(log.producers)
    return price


def list_groups(broker: "BrokerState", _request: Any, _: int) -> int:  # noqa: ANN401
    return _GROUP * broker.coordinator.group_count()


def describe_groups(broker: "BrokerState", request: Any, _: int) -> int:  # noqa: ANN401
    return _members(broker, request.groups)


def describe_consumer_groups(broker: "BrokerState", request: Any, _: int) -> int:  # noqa: ANN401
    return _members(broker, request.group_ids)


def _members(broker: "BrokerState", names: Iterable[str]) -> int:
    price = 0
    for name in dict.fromkeys(names):
        state = broker.coordinator.state_of(name)
        group = None if state is None else state.groups.get(GroupId(name))
        if group is not None:
            price += group.members_bytes
        if isinstance(group, ConsumerGroup):
            price += _PARTITION * sum(map(len, group.owners.values()))
    return price


def offset_fetch(broker: "BrokerState", request: Any, _: int) -> int:  # noqa: ANN401
    asked = {group.group_id for group in request.groups if group.topics is None}
    if request.topics is None:
        asked.add(request.group_id)
    price = 0
    for name in asked:
        state = broker.coordinator.state_of(name)
        if state is not None:
            by_topic = state.offsets.groups.get(GroupId(name), {})
            rows = sum(map(len, by_topic.values()))
            price += _OFFSET * rows + _metadata_bytes(
                by_topic, rows, state.settings.offset_metadata_max_bytes
            )
    return price


def _metadata_bytes(by_topic: OffsetsByTopic, rows: int, most: int) -> int:
    """Bytes of the offsets' metadata; the largest possible size for those that are not looked at."""
    every = (stored for partitions in by_topic.values() for stored in partitions.values())
    size = sum(
        len(stored) if isinstance(stored, bytes) else len(stored.metadata or "")
        for stored in islice(every, _LOOKED_AT)
    )
    return 2 * (size + most * max(rows - _LOOKED_AT, 0))  # as text and on the wire


def describe_configs(_: "BrokerState", request: Any, __: int) -> int:  # noqa: ANN401
    most = {2: len(TOPIC_CONFIGS), 4: len(BROKER_CONFIGS)}
    return _CONFIG * sum(
        len(asked.configuration_keys or ()) or most.get(asked.resource_type, 10)
        for asked in request.resources
    )


def describe_acls(broker: "BrokerState", _request: Any, _: int) -> int:  # noqa: ANN401
    return _RIGHT * len(broker.catalog.acls)


def fetch(broker: "BrokerState", request: Any, _: int) -> int:  # noqa: ANN401
    return _PARTITION * broker.fetch_sessions.partitions_of(request.session_id) if request.session_id else 0
