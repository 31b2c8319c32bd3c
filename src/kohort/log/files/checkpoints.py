"""The small text files of Kafka's log directories: parsed and written, nothing read from disk here."""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from itertools import pairwise

from kohort.model.errors import KohortError
from kohort.model.ids import LeaderEpoch, Offset, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition, show_topic_id

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED_UP_TO = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
OFFSETS_PARTITIONS = "kohort.offsets.topic.num.partitions"
"""What Kohort notes in ``meta.properties``, beside what Kafka has there; Kafka passes over it."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
LOCK = ".lock"

_VERSION = "0"


class CorruptCheckpointError(KohortError):
    """A checkpoint that does not say what it should; the caller falls back on the log itself."""


def write_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """A log-directory checkpoint: one offset for each partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return _lines(lines)


def read_offsets(content: bytes) -> dict[TopicPartition, Offset]:
    """Raises ``CorruptCheckpointError``."""
    offsets = {}
    for topic, partition, offset in _rows(content, 3):
        offsets[TopicPartition(TopicName(topic), Partition(_number(partition)))] = Offset(_number(offset))
    return offsets


def write_epochs(epochs: Sequence[tuple[LeaderEpoch, Offset]]) -> bytes:
    """A ``leader-epoch-checkpoint``: the first offset of each epoch."""
    return _lines([f"{epoch} {start}" for epoch, start in epochs])


def read_epochs(content: bytes) -> list[tuple[LeaderEpoch, Offset]]:
    """Raises ``CorruptCheckpointError``, also when epochs or offsets do not increase."""
    epochs = [(LeaderEpoch(_number(epoch)), Offset(_number(start))) for epoch, start in _rows(content, 2)]
    for (epoch, start), (next_epoch, next_start) in pairwise(epochs):
        if next_epoch <= epoch or next_start <= start:
            raise CorruptCheckpointError(
                f"leader epoch {next_epoch} from {next_start} follows {epoch} from {start}"
            )
    return epochs


def write_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {show_topic_id(topic_id)}".encode()


def read_partition_metadata(content: bytes) -> TopicId:
    """Raises ``CorruptCheckpointError``."""
    fields = _fields(content, ":")
    try:
        topic_id = urlsafe_b64decode(fields["topic_id"] + "==")
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"no topic id in {PARTITION_METADATA}") from error
    if fields.get("version") != _VERSION or len(topic_id) != 16:
        raise CorruptCheckpointError(f"{PARTITION_METADATA} has another version, or an id that is none")
    return TopicId(topic_id)


def write_meta_properties(properties: Mapping[str, str]) -> bytes:
    return ("#\n" + "".join(f"{name}={value}\n" for name, value in properties.items())).encode()


def read_meta_properties(content: bytes) -> dict[str, str]:
    return _fields(content, "=")


def _fields(content: bytes, separator: str) -> dict[str, str]:
    fields = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith("#"):
            fields[name.strip()] = value.strip()
    return fields


def _lines(lines: list[str]) -> bytes:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def _rows(content: bytes, columns: int) -> list[list[str]]:
    lines = content.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise CorruptCheckpointError("a checkpoint begins with version 0 and a number of entries")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != _number(lines[1]) or any(len(row) != columns for row in rows):
        raise CorruptCheckpointError(f"a checkpoint of {lines[1]} entries has {len(rows)} lines")
    return rows


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{text!r} is not a number") from error
