"""Topics gathered from several requests, and how they look."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kohort.cli.screen import Column, TextTable, show_bytes, show_facts, show_table
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import Config, Resource, ResourceType
from kohort.client.admin.topics import OffsetSpec
from kohort.client.errors import ApiNotServedError, BrokerError
from kohort.client.metadata import NO_NODE, PartitionInfo, TopicInfo
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition, show_topic_id
from kohort.story.names import counted

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition with what its leader says of it; UNKNOWN where it does not."""

    info: PartitionInfo
    earliest: int
    latest: int
    size: int

    @property
    def records(self) -> int:
        """How many offsets there are; in a compacted topic that is more than there are records."""
        return self.latest - self.earliest if UNKNOWN not in (self.earliest, self.latest) else UNKNOWN


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic with what else is known of it."""

    info: TopicInfo
    partitions: tuple[PartitionView, ...]
    configs: Mapping[str, Config]

    @property
    def records(self) -> int:
        return _total([partition.records for partition in self.partitions])

    @property
    def size(self) -> int:
        return _total([partition.size for partition in self.partitions])


def _total(numbers: Sequence[int]) -> int:
    return UNKNOWN if UNKNOWN in numbers else sum(numbers)


async def survey(
    admin: AsyncAdmin, topics: Collection[TopicInfo], *, configs: bool = False
) -> list[TopicView]:
    """Offsets, sizes and perhaps configs of these topics."""
    if not topics:
        return []
    led = [
        TopicPartition(topic.name, one.partition)
        for topic in topics
        for one in topic.partitions
        if one.leader != NO_NODE
    ]
    earliest = await _offsets(admin, led, OffsetSpec.EARLIEST)
    latest = await _offsets(admin, led, OffsetSpec.LATEST)
    sizes = await _sizes(admin, led)
    settings = await _configs(admin, [topic.name for topic in topics]) if configs else {}

    def view(topic: TopicInfo, one: PartitionInfo) -> PartitionView:
        key = TopicPartition(topic.name, one.partition)
        size = sizes.get((key, one.leader), UNKNOWN)
        return PartitionView(one, earliest.get(key, UNKNOWN), latest.get(key, UNKNOWN), size)

    return [
        TopicView(topic, tuple(view(topic, one) for one in topic.partitions), settings.get(topic.name, {}))
        for topic in topics
    ]


async def _offsets(
    admin: AsyncAdmin, partitions: Collection[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    listed = await admin.list_offsets(dict.fromkeys(partitions, int(spec)))
    return {
        partition: found.offset for partition, found in listed.items() if not isinstance(found, BrokerError)
    }


async def _sizes(
    admin: AsyncAdmin, partitions: Collection[TopicPartition]
) -> dict[tuple[TopicPartition, int], int]:
    try:
        directories = await admin.describe_log_dirs(partitions)
    except (ApiNotServedError, BrokerError):
        return {}  # some clusters do not tell: a table without sizes is better than none
    return {
        (replica.partition, directory.node_id): replica.size
        for directory in directories
        for replica in directory.replicas
        if not replica.is_future
    }


async def _configs(admin: AsyncAdmin, names: Collection[TopicName]) -> dict[TopicName, dict[str, Config]]:
    described = await admin.describe_configs([Resource(ResourceType.TOPIC, name) for name in names])
    return {
        TopicName(resource.name): found
        for resource, found in described.items()
        if not isinstance(found, BrokerError)
    }


# For people


def show_list(topics: Sequence[TopicView], *, empty: str) -> None:
    columns = (
        Column("topic"),
        Column("partitions", True),
        Column("replication", True, rank=1),
        Column("records", True),
        Column("size", True),
    )
    rows = [
        (
            topic.info.name,
            str(len(topic.partitions)),
            str(topic.info.replication_factor),
            _number(topic.records),
            show_bytes(topic.size),
        )
        for topic in topics
    ]
    show_table(TextTable(columns, rows), empty=empty)


def show_description(topic: TopicView, all_configs: bool) -> None:
    configs = [f"{config.name}={config.value}" for config in _shown(topic, all_configs)]
    show_facts(
        f"topic {topic.info.name}{' (internal)' if topic.info.is_internal else ''}",
        (
            ("id", show_topic_id(topic.info.topic_id)),
            ("partitions", str(len(topic.partitions))),
            ("replication", str(topic.info.replication_factor)),
            ("records", _number(topic.records)),
            ("size", show_bytes(topic.size)),
            ("configs", "\n".join(configs) if all_configs else ", ".join(configs) or "all default"),
        ),
    )
    columns = (
        Column("partition", True),
        Column("leader", True),
        Column("epoch", True, rank=3),
        Column("replicas", rank=2),
        Column("in sync", rank=1),
        Column("earliest", True),
        Column("latest", True),
        Column("size", True),
    )
    show_table(TextTable(columns, [_row(one) for one in topic.partitions]), empty="")


def _row(one: PartitionView) -> tuple[str, ...]:
    return (
        str(one.info.partition),
        "none" if one.info.leader == NO_NODE else str(one.info.leader),
        _number(one.info.leader_epoch),
        ",".join(map(str, one.info.replicas)),
        ",".join(map(str, one.info.in_sync)),
        _number(one.earliest),
        _number(one.latest),
        show_bytes(one.size),
    )


def one_line(topic: TopicView) -> str:
    """The gist of a topic after a change."""
    configs = ", ".join(f"{config.name}={config.value}" for config in _shown(topic, all_configs=False))
    return f"{counted(len(topic.partitions), 'partition')}, configs {configs or 'all default'}"


def _number(number: int) -> str:
    return "-" if number == UNKNOWN else str(number)


def _shown(topic: TopicView, all_configs: bool) -> list[Config]:
    ordered = [topic.configs[name] for name in sorted(topic.configs)]
    return [config for config in ordered if all_configs or not config.is_default]


# For programs


def summary_json(topic: TopicView) -> dict[str, object]:
    return {
        "topic": topic.info.name,
        "topic_id": show_topic_id(topic.info.topic_id),
        "internal": topic.info.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.info.replication_factor,
        "records": _known(topic.records),
        "size": _known(topic.size),
    }


def description_json(topic: TopicView, all_configs: bool) -> dict[str, object]:
    return {
        "topic": topic.info.name,
        "topic_id": show_topic_id(topic.info.topic_id),
        "internal": topic.info.is_internal,
        "replication_factor": topic.info.replication_factor,
        "records": _known(topic.records),
        "size": _known(topic.size),
        "configs": {config.name: config.value for config in _shown(topic, all_configs)},
        "partitions": [
            {
                "partition": one.info.partition,
                "leader": None if one.info.leader == NO_NODE else one.info.leader,
                "leader_epoch": _known(one.info.leader_epoch),
                "replicas": list(one.info.replicas),
                "in_sync": list(one.info.in_sync),
                "earliest": _known(one.earliest),
                "latest": _known(one.latest),
                "size": _known(one.size),
            }
            for one in topic.partitions
        ],
    }


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
