"""Kafka's small text files, byte for byte."""

import pytest

from kohort.log.files.checkpoints import (
    CorruptCheckpointError,
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    write_epochs,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from kohort.model.ids import LeaderEpoch, Offset, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition

OFFSETS = {
    TopicPartition(TopicName("orders"), Partition(0)): Offset(12),
    TopicPartition(TopicName("a.b-c"), Partition(7)): Offset(0),
}


def test_offsets_are_a_version_a_count_and_a_line_each() -> None:
    content = write_offsets(OFFSETS)
    assert content == b"0\n2\norders 0 12\na.b-c 7 0\n"
    assert read_offsets(content) == OFFSETS
    assert read_offsets(write_offsets({})) == {}


def test_epochs_are_a_version_a_count_and_a_line_each() -> None:
    entries = [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(3), Offset(17))]
    assert write_epochs(entries) == b"0\n2\n0 0\n3 17\n"
    assert read_epochs(b"0\n2\n0 0\n3 17\n") == entries


@pytest.mark.parametrize(
    "content",
    [b"", b"0", b"1\n0\n", b"0\n2\norders 0 12\n", b"0\n1\norders 0\n", b"0\nx\n", b"0\n1\norders x 1\n"],
)
def test_a_damaged_checkpoint_is_recognised(content: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        read_offsets(content)


@pytest.mark.parametrize("content", [b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n"])
def test_epochs_that_do_not_increase_are_recognised(content: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        read_epochs(content)


def test_partition_metadata_names_the_topic_id() -> None:
    topic_id = TopicId(bytes(range(16)))
    content = write_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_partition_metadata(content) == topic_id


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 0\n", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: AAEC"],
)
def test_damaged_partition_metadata_is_recognised(content: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        read_partition_metadata(content)


def test_meta_properties_are_java_properties() -> None:
    content = write_meta_properties({"version": "1", "cluster.id": "c"})
    assert read_meta_properties(content) == {"version": "1", "cluster.id": "c"}
    assert read_meta_properties(b"#\n#Tue Jan 02 2024\nnode.id=3\n") == {"node.id": "3"}
