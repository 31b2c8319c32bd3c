"""The files of one partition cannot be read: the broker starts without it, and serves it once it can."""

import errno
import logging
import os
from pathlib import Path

import pytest
from tests.broker.asking import append, batch, create, eventually, fetch, offset_at, produce, values
from tests.broker.grouping import commit_request, find
from tests.broker.raw import Raw, Reply

from kohort.log.files.disk import File, RealDisk
from kohort.model.errors import ErrorCode
from kohort.primitives.strings import partition_for
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

GROUPS = ("here", "there", "elsewhere")
SHARDS = 5


def committed(raw: Raw, group: str) -> Reply:
    topics = [OffsetFetchRequestTopic(name="well", partition_indexes=[0])]
    return raw.send(OffsetFetchRequest(group_id=group, topics=topics), 7)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with two topics and three groups, after a clean stop."""
    configs = {"offsets.topic.num.partitions": SHARDS}
    with Broker(data=tmp_path, configs=configs) as broker, Raw(broker.bootstrap) as raw:
        for name in ("well", "ill"):
            create(raw, name)
            append(raw, name, batch("a"), batch("b"))
        find(raw)
        for group in GROUPS:
            reply = raw.send(commit_request((0, 1), topic="well", group=group), 8)
            assert reply.topics[0].partitions[0].error_code == 0
    return tmp_path


class BadSector:
    """No file of some partition can be opened, as on a disk with a bad sector."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partition: str | None = None
        well = RealDisk.open

        def bad(disk: RealDisk, path: str, *, create: bool = False) -> File:
            if self.partition is not None and f"/{self.partition}/" in path:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return well(disk, path, create=create)

        monkeypatch.setattr(RealDisk, "open", bad)

    def heal(self) -> None:
        self.partition = None


@pytest.fixture
def sector(monkeypatch: pytest.MonkeyPatch) -> BadSector:
    return BadSector(monkeypatch)


def start(data: Path) -> Broker:
    return Broker(data=data)


def test_the_others_work_and_it_answers_kafka_storage_error_until_it_can_be_read(
    data: Path, sector: BadSector, caplog: pytest.LogCaptureFixture
) -> None:
    sector.partition = "ill-0"
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        assert values(raw, "well") == ["a", "b"]
        assert append(raw, "well", batch("c")) == 2
        assert produce(raw, "ill", batch("c")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetch(raw, "ill").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for when in (-1, -2, 0):
            assert offset_at(raw, "ill", when).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
        assert line.startswith("ill-0 cannot be read")
        assert str(data / "ill-0") in line
        assert f"kohort data check {data}" in line
        sector.heal()
        eventually(lambda: fetch(raw, "ill").error_code == 0)
        assert append(raw, "ill", batch("c")) == 2
        assert values(raw, "ill") == ["a", "b", "c"]
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        assert values(raw, "ill") == ["a", "b", "c"]


def test_nothing_of_it_is_forgotten_when_the_broker_stops_before_it_is_healed(
    data: Path, sector: BadSector
) -> None:
    sector.partition = "ill-0"
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        append(raw, "well", batch("c"))
    sector.heal()
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        assert values(raw, "ill") == ["a", "b"]
        assert values(raw, "well") == ["a", "b", "c"]


def test_its_topic_can_be_deleted_and_made_again(data: Path, sector: BadSector) -> None:
    sector.partition = "ill-0"
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        (deleted,) = raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="ill")]), 6).responses
        assert deleted.error_code == 0
        sector.heal()  # it was of the old directory
        create(raw, "ill")
        assert append(raw, "ill", batch("new")) == 0
        assert values(raw, "ill") == ["new"]


def test_a_partition_of_the_offsets_topic_keeps_only_its_groups_away(data: Path, sector: BadSector) -> None:
    ill = partition_for(GROUPS[0], SHARDS)
    assert len({partition_for(group, SHARDS) for group in GROUPS}) == len(GROUPS)
    sector.partition = f"__consumer_offsets-{ill}"
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        for group in GROUPS[1:]:
            eventually(lambda group=group: committed(raw, group).error_code == 0)  # type: ignore[misc]
            assert committed(raw, group).topics[0].partitions[0].committed_offset == 1
        assert committed(raw, GROUPS[0]).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        sector.heal()
        eventually(lambda: committed(raw, GROUPS[0]).error_code == 0)
        assert committed(raw, GROUPS[0]).topics[0].partitions[0].committed_offset == 1


def test_a_directory_of_another_topic_keeps_only_its_partition_away(data: Path) -> None:
    (data / "ill-0" / "partition.metadata").write_text((data / "well-0" / "partition.metadata").read_text())
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        assert values(raw, "well") == ["a", "b"]
        assert fetch(raw, "ill").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_that_is_made_again_after_a_clean_stop_begins_at_offset_0(data: Path) -> None:
    with start(data) as broker, Raw(broker.bootstrap) as raw:
        raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="well")]), 6)
        create(raw, "well")
        assert append(raw, "well", batch("new")) == 0
