"""Files on disk: Kafka's dump tool accepts ours, Kafka serves our segments, and we serve Kafka's."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.interop.conftest import need
from tests.interop.scripts.consumer_admin import commit_as
from tests.interop.scripts.consumer_groups import group_of
from tests.interop.scripts.consumers import CONSUMER, describing
from tests.interop.scripts.exchange import Exchange
from tests.interop.scripts.fetch import part, reading
from tests.interop.scripts.members import stable_pair
from tests.interop.scripts.offsets import at, committing, fetching, forget
from tests.interop.scripts.setting import T0, append, make_topic, ready_group
from tests.interop.targets import SETTINGS, Target, kohort_broker, kohort_missing
from tools.peers.kafka_broker import kafka_broker, running
from tools.peers.kafka_tools import Tool, ToolShell
from tools.peers.pins import Peer

from kohort.model.errors import ErrorCode
from kohort.primitives.strings import partition_for
from kohort.records.batch import BatchFields, Record, batches, build_batch, read_records
from kohort.records.compression import Codec
from kohort.records.group_records import (
    AssignedPartitions,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    OffsetCommitKey,
    RecordKey,
    RecordValue,
)
from kohort.records.offsets_topic import (
    VALUES,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_named,
)
from kohort.records.record import NewRecord
from kohort.wire.messages.describe_groups import DescribeGroupsRequest

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC = "files"
GROUP, MODERN = "files-group", "files-consumers"
PATTERN = "fil.s"
CONSUMER_GROUP_TYPES = {3, 5, 6, 7, 8, 16}  # of the records of a consumer group with a regular expression
OFFSETS_PARTITIONS = int(SETTINGS["offsets.topic.num.partitions"])
COUNT = 120
# What the dump tool prints when files do not fit together.
COMPLAINTS = ("ismatch", "invalid bytes", "isvalid: false", "out of order", "non-consecutive", "Exception")
CONTENT = ("*.log", "*.index", "*.timeindex", "leader-epoch-checkpoint")
Start = Callable[[Path], AbstractContextManager[Target]]


@contextmanager
def kafka(home: Path) -> Iterator[Target]:
    """Kafka in a folder, formatted at the first start."""
    fresh = not (home / "server.properties").exists()
    with kafka_broker(SETTINGS, home) if fresh else running(home) as broker:
        yield Target("kafka", broker.bootstrap, broker.data)


@contextmanager
def kohort(home: Path) -> Iterator[Target]:
    """Kohort in a folder."""
    with kohort_broker(home / "data") as target:
        yield target


BROKERS: dict[str, Start] = {"kafka": kafka, "kohort": kohort}


@contextmanager
def exchange(target: Target) -> Iterator[Exchange]:
    x = Exchange(target.address)
    try:
        yield x
    finally:
        x.close()


def sample(number: int) -> bytes:
    """A batch of some 30 kB, codecs in turn, times that mostly grow."""
    when = T0 + number * 100 - (250 if number % 10 == 3 else 0)
    noise = random.Random(number).randbytes(9000)  # does not compress, so that segments fill
    records = [NewRecord(when + i, b"k%d" % i, noise, (("h", b"v"),)) for i in range(3)]
    return build_batch(records, BatchFields(codec=Codec(number % 5)))


def fill(target: Target) -> None:
    """Enough batches for several segments, and a group of each kind that has committed."""
    with exchange(target) as x:
        make_topic(x, TOPIC, segment_bytes="1048576")
        for number in range(COUNT):
            append(x, TOPIC, sample(number))
        lead, _ = stable_pair(x, GROUP)
        x.ask(committing(lead.group, TOPIC, at(0, 7, "seven", epoch=0), by=lead), 9)
        (reader,) = group_of(x, MODERN, "reader")
        reader.join(subscribed_topic_regex=PATTERN, subscribed_topic_names=None)
        reader.beat_until_assigned(1)
        reader.acknowledge()
        x.ask(commit_as(reader, TOPIC, reader.epoch, 8), 9)


def read_all(target: Target) -> list[Record]:
    """Every record of the topic, through Fetch."""
    found: list[Record] = []
    offset = 0
    with exchange(target) as x:
        while True:
            answer = x.ask(reading(TOPIC, part(offset=offset), max_bytes=1 << 22), 12)
            data = answer.responses[0].partitions[0]
            assert data.error_code == 0, data
            blob = bytes(data.records or b"")
            for position, header in batches(blob):
                if position + header.size > len(blob):
                    break
                found += read_records(blob, position, header)
                offset = header.next_offset
            if offset >= data.high_watermark:
                return found


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The data folder of a broker that was filled and stopped in good order, made once."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            home = tmp_path_factory.mktemp(f"files-{name}")
            with BROKERS[name](home) as target:
                fill(target)
            made[name] = target.data
        return made[name]

    return make


@pytest.fixture(params=["kafka", "kohort"])
def filled(request: pytest.FixtureRequest, stopped: Callable[[str], Path]) -> Path:
    need(Peer.KAFKA)
    missing = kohort_missing()
    if request.param == "kohort" and missing is not None:
        pytest.skip(missing)
    return stopped(request.param)


def expected() -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.timestamp, record.key, record.value)
        for number in range(COUNT)
        for record in read_records(sample(number))
    ]


def content(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.timestamp, record.key, record.value) for record in records]


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if any(sign in line for sign in COMPLAINTS)]


def test_the_dump_tool_finds_nothing_wrong(filled: Path, kafka_tools: ToolShell) -> None:
    logs = sorted((filled / f"{TOPIC}-0").glob("*.log"))
    assert len(logs) > 1, "the topic should have rolled"
    indexes = [
        each for suffix in (".index", ".timeindex") for each in sorted(logs[0].parent.glob(f"*{suffix}"))
    ]
    files = ",".join(str(path) for path in [*logs, *indexes])
    said = kafka_tools.check(
        Tool.DUMP_LOG, "--files", files, "--deep-iteration", "--max-message-size", "9999999"
    )
    assert complaints(said.stdout) == []
    assert said.stdout.count("| offset: ") == COUNT * 3


def test_the_indexes_point_at_batches(filled: Path, kafka_tools: ToolShell) -> None:
    for index in sorted((filled / f"{TOPIC}-0").glob("*.index")):
        said = kafka_tools.check(Tool.DUMP_LOG, "--files", str(index), "--verify-index-only")
        assert complaints(said.stdout) == []
    first = min((filled / f"{TOPIC}-0").glob("*.index"))
    assert first.stat().st_size > 0, "a full segment has index entries"


def test_the_dump_tool_decodes_the_offsets_topic(filled: Path, kafka_tools: ToolShell) -> None:
    files = ",".join(str(path) for path in filled.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    lines = kafka_tools.check(Tool.DUMP_LOG, "--files", files, "--offsets-decoder").lines()
    assert complaints("\n".join(lines)) == []
    mine = [line for line in lines if '"files-group"' in line]
    assert any('"topic":"files","partition":0' in line and '"offset":7' in line for line in mine)
    assert any('"generation":2' in line and '"protocol":"range"' in line for line in mine)
    modern = [line for line in lines if f'"{MODERN}"' in line]
    printed = {int(found[1]) for line in modern if (found := re.search(r'key: {"type":"?(\d+)', line))}
    assert printed >= CONSUMER_GROUP_TYPES


@pytest.mark.parametrize("reader", ["kafka", "kohort"])
def test_a_broker_serves_the_segments_of_the_other(
    reader: str, stopped: Callable[[str], Path], tmp_path: Path
) -> None:
    need(Peer.KAFKA)
    missing = kohort_missing()
    if missing is not None:
        pytest.skip(missing)
    source = stopped("kohort" if reader == "kafka" else "kafka") / f"{TOPIC}-0"
    with BROKERS[reader](tmp_path) as target:
        with exchange(target) as x:
            make_topic(x, TOPIC, segment_bytes="1048576")
            append(x, TOPIC, sample(0))  # the folder may come with the first batch
        place = target.data / f"{TOPIC}-0"
    put(source, place)
    with BROKERS[reader](tmp_path) as target:
        assert content(read_all(target)) == expected()


@pytest.mark.parametrize("reader", ["kafka", "kohort"])
def test_a_broker_loads_the_groups_of_the_other(
    reader: str, stopped: Callable[[str], Path], tmp_path: Path
) -> None:
    """The offsets topic of one is put in the place of the other's: its groups are there with all they had."""
    need(Peer.KAFKA)
    with BROKERS[reader](tmp_path) as target, exchange(target) as x:
        make_topic(x, TOPIC)
        for group in (GROUP, MODERN):
            ready_group(x, group)
            x.ask(committing(group, TOPIC, at(0, 1)), 9)  # the folder may come with the first record
    for folder in {folder_of(GROUP), folder_of(MODERN)}:
        put(stopped("kohort" if reader == "kafka" else "kafka") / folder, target.data / folder)
    with BROKERS[reader](tmp_path) as target, exchange(target) as x:
        ready_group(x, GROUP)
        (fetched,) = x.ask(fetching(GROUP, TOPIC, 0), 8).groups
        (offset,) = fetched.topics[0].partitions
        assert (offset.committed_offset, offset.metadata) == (7, "seven")
        (group,) = x.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups
        assert (group.group_state, group.protocol_data, len(group.members)) == ("Stable", "range", 2)
        ready_group(x, MODERN)
        (modern,) = x.ask(describing(MODERN), 1).groups
        assert (modern.group_state, modern.group_epoch, modern.assignment_epoch) == ("Stable", 2, 2)
        (member,) = modern.members
        assert member.member_type == CONSUMER
        assert (member.member_id, member.member_epoch, member.subscribed_topic_regex) == (
            "reader",
            2,
            PATTERN,
        )
        (refused,) = x.ask(forget(MODERN, TOPIC), 0).topics
        assert refused.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC  # by its expression
        (fetched,) = x.ask(fetching(MODERN, TOPIC, 0), 8).groups
        assert fetched.topics[0].partitions[0].committed_offset == 8


def folder_of(group: str) -> str:
    return f"__consumer_offsets-{partition_for(group, OFFSETS_PARTITIONS)}"


def put(source: Path, place: Path) -> None:
    """Replace the log in one folder by that of another."""
    assert list(source.glob("*.log"))
    assert list(place.glob("*.log"))
    for pattern in CONTENT:
        for old in place.glob(pattern):
            old.unlink()
        for new in source.glob(pattern):
            shutil.copy(new, place / new.name)


def records_in(folder: Path) -> list[Record]:
    """Every record of a log, read with our own code."""
    return [
        record
        for blob in map(Path.read_bytes, sorted(folder.glob("*.log")))
        for position, header in batches(blob)
        for record in read_records(blob, position, header)
    ]


def test_we_read_what_kafka_wrote_byte_by_byte(stopped: Callable[[str], Path]) -> None:
    need(Peer.KAFKA)
    found = records_in(stopped("kafka") / f"{TOPIC}-0")
    assert content(found) == expected()
    assert [record.offset for record in found] == list(range(COUNT * 3))


def test_both_brokers_write_the_same_records_of_a_consumer_group(stopped: Callable[[str], Path]) -> None:
    """In the same order; ids of topics, hashes and times differ from run to run and are left out."""
    need(Peer.KAFKA)
    by_kafka, by_kohort = (consumer_group_records(stopped(name) / folder_of(MODERN)) for name in BROKERS)
    assert {key.record_type for key, _ in by_kafka} == CONSUMER_GROUP_TYPES
    assert by_kohort == by_kafka


def consumer_group_records(folder: Path) -> list[tuple[RecordKey, RecordValue]]:
    found: list[tuple[RecordKey, RecordValue]] = []
    for record in records_in(folder):
        key = decode_key(record.key)
        if isinstance(key, UnknownKey | OffsetCommitKey) or group_named(record.key) != MODERN:
            continue
        assert record.value is not None
        value = decode_value(VALUES[type(key)], record.value)
        assert (encode_key(key), encode_value(value)) == (record.key, record.value)
        found.append((key, without_chance(value)))
    return found


def without_chance(value: RecordValue) -> RecordValue:
    """A value without what differs from run to run."""
    parts: list[AssignedPartitions] = []
    match value:
        case ConsumerGroupMetadataValue():
            value.metadata_hash = int(value.metadata_hash != 0)
        case ConsumerGroupRegularExpressionValue():
            value.version = value.timestamp = 0
        case ConsumerGroupTargetAssignmentMemberValue():
            parts = value.topic_partitions
        case ConsumerGroupCurrentMemberAssignmentValue():
            parts = value.assigned_partitions
    for part_of_topic in parts:
        part_of_topic.topic_id = bytes(16)
    return value
