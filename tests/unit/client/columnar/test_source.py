"""Ranges of offsets as Arrow batches, against brokers that say what the test wants."""

import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest
from tests.unit.client.scripted import HASTY, Answer, Hangup, ScriptedCluster, in_turn, on_loop
from tests.unit.records.markers import end_marker

from kohort.client.columnar import (
    ColumnOptions,
    ReadTimeoutError,
    fetch,
)
from kohort.client.errors import UnknownTopicError
from kohort.client.settings import ClientOptions
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import BatchFields, CorruptBatchError, NewRecord, build_batch, read_header
from kohort.records.build import rebuild_batch
from kohort.records.control import ControlType
from kohort.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

WHERE = TopicPartition(TopicName("t"), Partition(0))
COMMITTED = ColumnOptions(isolation_level="read_committed")


def batch(base: int, count: int, fields: BatchFields | None = None) -> bytes:
    records = [NewRecord(1_000 + base + at, None, b"%d" % (base + at)) for at in range(count)]
    return build_batch(records, (fields or BatchFields())._replace(base_offset=base))


def answer(records: bytes, **data: object) -> Callable[[FetchRequest], FetchResponse]:
    def script(request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        found = PartitionData(records=records, **data)  # type: ignore[arg-type]  # fields by name
        name = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[found])
        return FetchResponse(responses=[name])

    return script


async def offsets(
    brokers: ScriptedCluster, start: int, end: int, options: ColumnOptions | None = None
) -> list[int]:
    found: list[int] = []
    async with brokers.client() as cluster:
        async for one in fetch(cluster, WHERE, start, end, options or ColumnOptions()):
            one.validate(full=True)
            found += one.column("offset").to_pylist()
    return found


def serving(*answers: Answer | Callable[[FetchRequest], FetchResponse]) -> ScriptedCluster:
    brokers = ScriptedCluster(topics={"t": [1]})
    brokers.on(FetchRequest, in_turn(*answers))
    return brokers


@on_loop
async def test_a_range_may_begin_and_end_inside_batches() -> None:
    brokers = serving(answer(batch(0, 5) + batch(5, 5)), answer(batch(10, 5)))
    assert await offsets(brokers, 3, 12) == list(range(3, 12))
    asked = [cast(FetchRequest, one.request).topics[0].partitions[0] for one in brokers.asked(FetchRequest)]
    assert [one.fetch_offset for one in asked] == [3, 10]


@on_loop
async def test_an_empty_range_asks_nobody() -> None:
    brokers = serving()
    assert await offsets(brokers, 7, 7) == []
    assert not brokers.asked(FetchRequest)


@on_loop
async def test_markers_and_aborted_records_are_left_out() -> None:
    aborted, kept = (BatchFields(producer_id=number, transactional=True) for number in (7, 8))
    log = b"".join(
        (
            batch(0, 2, aborted),
            batch(2, 2, kept),
            end_marker(ControlType.ABORT, 0, aborted._replace(base_offset=4)),
            batch(5, 2, aborted),
            end_marker(ControlType.COMMIT, 0, kept._replace(base_offset=7)),
        )
    )
    transactions = [AbortedTransaction(producer_id=7, first_offset=0)]
    brokers = serving(answer(log, aborted_transactions=transactions))
    assert await offsets(brokers, 0, 8, COMMITTED) == [2, 3, 5, 6]
    assert await offsets(serving(answer(log)), 0, 8) == [0, 1, 2, 3, 5, 6]


@on_loop
async def test_what_compaction_removed_is_not_waited_for() -> None:
    whole = batch(0, 10)
    header = read_header(whole)
    emptied = rebuild_batch(header, [])
    brokers = serving(answer(emptied), answer(batch(20, 5)))
    assert await offsets(brokers, 0, 20) == []
    assert len(brokers.asked(FetchRequest)) == 2


@on_loop
async def test_a_batch_that_is_cut_off_is_asked_for_again() -> None:
    second = batch(3, 3)
    brokers = serving(answer(batch(0, 3) + second[:-1]), answer(second))
    assert await offsets(brokers, 0, 6) == list(range(6))


@on_loop
async def test_what_passes_is_tried_again() -> None:
    moved = answer(b"", error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert await offsets(serving(Hangup(), moved, answer(b""), answer(batch(0, 3))), 0, 3) == [0, 1, 2]


@on_loop
async def test_a_partition_that_is_newer_than_what_the_client_knows_is_found() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    brokers.on(FetchRequest, answer(batch(0, 3), partition_index=1))
    new = TopicPartition(WHERE.topic, Partition(1))
    async with brokers.client(HASTY) as cluster:
        await cluster.topics(["t"])
        with pytest.raises(UnknownTopicError, match="no partition 1"):
            await anext(fetch(cluster, new, 0, 3))
        brokers.topics["t"] = [1, 1]
        assert [one.num_rows async for one in fetch(cluster, new, 0, 3)] == [3]


@on_loop
async def test_a_damaged_batch_is_named_after_the_records_before_it() -> None:
    damaged = bytearray(batch(3, 3))
    damaged[-1] ^= 1
    found: list[int] = []
    async with serving(answer(batch(0, 3) + damaged)).client() as cluster:
        reading = fetch(cluster, WHERE, 0, 6)
        found += (await anext(reading)).column("offset").to_pylist()
        with pytest.raises(CorruptBatchError, match=r"cannot read t-0 at offset 3: .*checksum"):
            await anext(reading)
    assert found == [0, 1, 2]


@on_loop
async def test_offsets_that_lead_nowhere_do_not_loop() -> None:
    with pytest.raises(CorruptBatchError, match="hold no record behind it"):
        await offsets(serving(answer(batch(0, 3))), 5, 9)
    with pytest.raises(CorruptBatchError, match="magic"):
        await offsets(serving(answer(bytes(16) + b"\x09" + bytes(80))), 5, 9)


@on_loop
async def test_an_end_behind_the_log_is_given_up_in_time() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    brokers.on(FetchRequest, answer(b""))
    async with brokers.client(ClientOptions(api_timeout_ms=0, retry_backoff_ms=1)) as cluster:
        with pytest.raises(ReadTimeoutError, match="t-0 has nothing at offset 0"):
            async for _ in fetch(cluster, WHERE, 0, 3):
                pass


@on_loop
async def test_append_times_are_those_of_the_batch() -> None:
    log = batch(0, 2, BatchFields(append_time=5_000)) + batch(2, 1)
    async with serving(answer(log)).client(HASTY) as cluster:
        rows = [row async for one in fetch(cluster, WHERE, 0, 3) for row in one.to_pylist()]
    assert [row["timestampType"] for row in rows] == [1, 1, 0]
    assert [row["timestamp"].timestamp() for row in rows] == [5.0, 5.0, 1.002]


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"columns": ("colour",)}, {"columns": ()}, {"rows": 0}, {"isolation_level": "snapshot"}):
        with pytest.raises(KohortError):
            ColumnOptions(**options)


@pytest.mark.slow
def test_without_pyarrow_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from kohort.client.columnar import MissingExtraError, arrow_schema\n"
        "try: arrow_schema()\n"
        "except MissingExtraError as error: print(error, error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'kohort[arrow]'" in done.stdout, done.stderr
