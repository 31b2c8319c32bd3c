"""A repair knows how many partitions ``__consumer_offsets`` has, or asks: groups stay where they are."""

from collections.abc import Iterable

import pytest

from kohort.log.files.catalog_state import CATALOG
from kohort.log.files.check import check, read_catalog
from kohort.log.files.checkpoints import OFFSETS_PARTITIONS, write_partition_metadata
from kohort.log.files.disk import read_file
from kohort.log.files.offsets_partitions import UnknownPartitionCountError
from kohort.log.files.repair import repair
from kohort.model.ids import TopicId
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import partition_for
from kohort.records.batch import NewRecord, build_batch
from kohort.records.group_records import ConsumerGroupMetadataKey, OffsetCommitKey
from kohort.records.offsets_topic import encode_key
from kohort.testing.faults import FakeDisk

MANY = [f"group-{number}" for number in range(12)]
ONE = ["payments"]


def put(disk: FakeDisk, path: str, content: bytes) -> None:
    disk.make_directory(f"data/{path}".rpartition("/")[0])
    disk.open(f"data/{path}", create=True).write(content, 0)


def with_groups(groups: Iterable[str], partitions: int) -> FakeDisk:
    """A data directory without a catalog; its groups are spread over so many partitions."""
    disk = FakeDisk()
    disk.make_directory("data")
    keys: dict[int, list[bytes]] = {}
    for group in groups:
        mine = keys.setdefault(partition_for(group, partitions), [])
        mine += [encode_key(OffsetCommitKey(group, "t", 0)), encode_key(ConsumerGroupMetadataKey(group))]
    for number, each in keys.items():
        batch = build_batch([NewRecord(1_000, key, None) for key in each])
        put(disk, f"{CONSUMER_OFFSETS}-{number}/00000000000000000000.log", batch)
    return disk


def note(disk: FakeDisk, text: str) -> None:
    content = f"version=1\ncluster.id=c\nnode.id=1\n{OFFSETS_PARTITIONS}={text}\n"
    put(disk, "meta.properties", content.encode())


def partitions_after_repair(disk: FakeDisk, given: int | None = None) -> int:
    repair(disk, "data", offsets_partitions=given)
    state = read_catalog(read_file(disk, f"data/{CATALOG}") or b"").state
    assert not check(disk, "data").is_damaged
    return state.offsets_partitions or 0


@pytest.mark.parametrize("partitions", [1, 2, 7, 50, 64])
def test_groups_that_fit_one_number_only_say_it(partitions: int) -> None:
    groups = [f"group-{number}" for number in range(4 * partitions + 8)]
    assert partitions_after_repair(with_groups(groups, partitions)) == partitions


def test_what_meta_properties_notes_holds_where_one_group_fits_many_numbers() -> None:
    disk = with_groups(ONE, 20)
    note(disk, "20")
    assert partitions_after_repair(disk) == 20


@pytest.mark.parametrize("damaged", ["21", "0", "", "\N{REPLACEMENT CHARACTER}0", "99999999999"])
def test_a_note_that_does_not_fit_the_groups_is_not_believed(damaged: str) -> None:
    disk = with_groups(MANY, 2)
    note(disk, damaged)
    assert partitions_after_repair(disk) == 2


def test_a_repair_that_would_guess_changes_nothing_and_names_the_way_out() -> None:
    disk = with_groups(ONE, 20)
    before = {entry.name for entry in disk.entries("data")}
    with pytest.raises(UnknownPartitionCountError, match="--offsets-partitions N"):
        repair(disk, "data")
    assert {entry.name for entry in disk.entries("data")} - {".lock"} == before
    (finding,) = [each for each in check(disk, "data").findings if each.name == CONSUMER_OFFSETS]
    assert "--offsets-partitions N" in finding.remedy
    assert partitions_after_repair(disk, given=20) == 20


def test_a_number_that_leaves_a_directory_out_is_refused() -> None:
    with pytest.raises(UnknownPartitionCountError, match="cannot have 1 partitions"):
        repair(with_groups(MANY, 2), "data", offsets_partitions=1)


def test_a_given_number_that_groups_contradict_is_taken_and_said_to_be_doubtful() -> None:
    done = repair(with_groups(MANY, 2), "data", offsets_partitions=3)
    assert any("some groups are where another number puts them" in each.what for each in done)


def test_kafka_has_a_directory_for_each_partition() -> None:
    disk = with_groups(ONE, 20)
    put(disk, "__cluster_metadata-0/00000000000000000000.log", b"")
    for number in range(20):
        metadata = write_partition_metadata(TopicId(b"c" * 16))
        put(disk, f"{CONSUMER_OFFSETS}-{number}/partition.metadata", metadata)
    assert partitions_after_repair(disk) == 20


def test_a_topic_without_groups_gets_kafkas_default() -> None:
    disk = FakeDisk()
    metadata = write_partition_metadata(TopicId(b"c" * 16))
    put(disk, f"{CONSUMER_OFFSETS}-3/partition.metadata", metadata)
    assert partitions_after_repair(disk) == 50


def test_an_empty_partition_that_says_its_topic_is_taken_into_the_catalog() -> None:
    disk = FakeDisk()
    for number in range(3):
        metadata = write_partition_metadata(TopicId(b"e" * 16))
        put(disk, f"empty-{number}/partition.metadata", metadata)
    done = repair(disk, "data")
    (topic,) = read_catalog(read_file(disk, f"data/{CATALOG}") or b"").state.topics.values()
    assert (topic.name, topic.topic_id, topic.partitions) == ("empty", b"e" * 16, 3)
    assert any("ACLs" in each.what and "are lost" in each.what for each in done)
