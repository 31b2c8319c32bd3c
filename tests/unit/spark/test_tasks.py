"""What a task reads of a range."""

import logging
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest
from pyarrow import lib as pa
from tests.unit.spark.conftest import Administer, Feed, OptionsOf

from kohort.client.admin.results import NewTopic
from kohort.client.columnar import ReadTimeoutError
from kohort.client.errors import BrokerError
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.records.batch import CorruptBatchError
from kohort.spark.errors import DataLossError
from kohort.spark.offsets import OffsetRange, topic_partition
from kohort.spark.options import SourceOptions
from kohort.spark.tasks import RangePartition, column_options, read_ranges, task_shares
from kohort.testing.intercept import answer, corrupt, cut_off, watch
from kohort.testing.plugin import Kohort
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData


@pytest.fixture
def topic(kohort: Kohort, feed: Feed) -> str:
    name = kohort.topic()
    feed(name, 20)
    return name


@pytest.fixture(autouse=True)
def _no_interception_after(kohort: Kohort) -> Iterator[None]:
    yield
    kohort.broker.stop_intercepting()


def rows(
    options: SourceOptions, topic: str, start: int, end: int, partition: int = 0
) -> list[dict[str, object]]:
    share = RangePartition(OffsetRange(topic, partition, start, end))
    return [row for batch in read_ranges(options, share) for row in batch.to_pylist()]


def offsets(options: SourceOptions, topic: str, start: int, end: int) -> list[object]:
    return [row["offset"] for row in rows(options, topic, start, end)]


def test_a_range_is_read_exactly(options_of: OptionsOf, topic: str) -> None:
    assert offsets(options_of(subscribe=topic), topic, 3, 9) == [3, 4, 5, 6, 7, 8]


def test_a_row_has_the_columns_of_the_connector(options_of: OptionsOf, topic: str) -> None:
    (row,) = rows(options_of(subscribe=topic, includeHeaders="true"), topic, 4, 5)
    assert row == {
        "timestamp": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
        "key": b"k4",
        "value": b"v4",
        "topic": topic,
        "partition": 0,
        "offset": 4,
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"4"}],
    }


def test_only_the_columns_that_are_wanted_are_made(options_of: OptionsOf, topic: str) -> None:
    options = options_of(subscribe=topic).with_columns(("offset", "value"))
    assert rows(options, topic, 0, 1) == [{"offset": 0, "value": b"v0"}]


def test_batches_have_as_many_rows_as_asked_for(options_of: OptionsOf, topic: str) -> None:
    share = RangePartition(OffsetRange(topic, 0, 0, 20))
    batches: list[pa.RecordBatch] = list(
        read_ranges(options_of(subscribe=topic, kohort__batch__rows="8"), share)
    )
    assert max(batch.num_rows for batch in batches) <= 8
    assert sum(batch.num_rows for batch in batches) == 20


def test_a_share_travels_to_its_task(topic: str) -> None:
    share = pickle.loads(pickle.dumps(RangePartition(OffsetRange(topic, 0, 3, 9))))
    assert share.ranges == (OffsetRange(topic, 0, 3, 9),)


@pytest.fixture
def wide(kohort: Kohort, feed: Feed) -> str:
    """Thirty partitions with three records each."""
    name = kohort.topic(partitions=30)
    for partition in range(30):
        feed(name, 3, partition=partition, first=10 * partition)
    return name


def wide_share(topic: str, end: int = 3) -> RangePartition:
    return RangePartition(*(OffsetRange(topic, partition, 1, end) for partition in range(30)))


def read_wide(options: SourceOptions, share: RangePartition) -> list[tuple[int, int]]:
    found = [row for batch in read_ranges(options, share) for row in batch.to_pylist()]
    return sorted((row["partition"], row["offset"]) for row in found)


EXPECTED = [(partition, offset) for partition in range(30) for offset in (1, 2)]


def test_small_ranges_share_a_task_and_a_request(kohort: Kohort, options_of: OptionsOf, wide: str) -> None:
    options = options_of(subscribe=wide)
    (share,) = task_shares(options, wide_share(wide).ranges)
    fetches = kohort.broker.intercept(watch, api="Fetch")
    assert read_wide(options, share) == EXPECTED
    assert len(fetches.seen) == 1


def test_a_task_for_each_range_if_that_is_wanted(options_of: OptionsOf, wide: str) -> None:
    options = options_of(subscribe=wide, kohort__task__offsets="1")
    assert len(task_shares(options, wide_share(wide).ranges)) == 30


def test_shared_ranges_that_do_not_fit_one_reply_are_read_all_the_same(
    kohort: Kohort, options_of: OptionsOf, wide: str
) -> None:
    options = options_of(subscribe=wide, kafka__max__partition__fetch__bytes="300")
    fetches = kohort.broker.intercept(watch, api="Fetch")
    assert read_wide(options, wide_share(wide)) == EXPECTED
    assert 1 < len(fetches.seen) < 90


def test_shared_ranges_are_asked_for_one_by_one_when_a_request_for_all_fails(
    kohort: Kohort, options_of: OptionsOf, wide: str
) -> None:
    kohort.broker.intercept(cut_off, api="Fetch", times=1)
    assert read_wide(options_of(subscribe=wide), wide_share(wide)) == EXPECTED


def test_a_loss_in_one_of_many_ranges_is_that_of_its_partition(
    administer: Administer, options_of: OptionsOf, wide: str
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(wide, 7): 2}))
    with pytest.raises(DataLossError, match=f"{wide}-7"):
        read_wide(options_of(subscribe=wide), wide_share(wide))
    left = read_wide(options_of(subscribe=wide, failOnDataLoss="false"), wide_share(wide))
    assert left == [one for one in EXPECTED if one != (7, 1)]


def test_settings_of_the_consumer_reach_the_fetches(options_of: OptionsOf) -> None:
    options = options_of(
        subscribe="a", kafka__isolation__level="read_committed", kafka__check__crcs="false",
        kafka__max__partition__fetch__bytes="1000", kafka__fetch__max__wait__ms="7",
    )  # fmt: skip
    columns = column_options(options)
    assert (columns.isolation_level, columns.check_crcs) == ("read_committed", False)
    assert (columns.max_bytes, columns.max_wait_ms) == (1_000, 7)


def test_expired_records_fail_the_task(administer: Administer, options_of: OptionsOf, topic: str) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    with pytest.raises(DataLossError, match=r"\[2, 9\).*OFFSET_OUT_OF_RANGE.*failOnDataLoss"):
        offsets(options_of(subscribe=topic), topic, 2, 9)


def test_expired_records_are_left_out_if_that_is_wanted(
    administer: Administer, options_of: OptionsOf, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    options = options_of(subscribe=topic, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert offsets(options, topic, 2, 9) == [6, 7, 8]
        assert offsets(options, topic, 2, 5) == []
    assert "going on at 6" in caplog.text


def test_a_topic_that_is_gone_is_a_loss(options_of: OptionsOf, topic: str) -> None:
    gone = f"{topic}-gone"
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        offsets(options_of(subscribe=topic), gone, 0, 5)
    assert offsets(options_of(subscribe=topic, failOnDataLoss="false"), gone, 0, 5) == []


def test_a_range_behind_the_log_is_a_loss(options_of: OptionsOf, topic: str) -> None:
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        offsets(options_of(subscribe=topic), topic, 40, 50)
    assert offsets(options_of(subscribe=topic, failOnDataLoss="false"), topic, 40, 50) == []


@pytest.mark.slow
def test_a_log_that_was_cut_inside_the_range_gives_what_it_has(options_of: OptionsOf, topic: str) -> None:
    patience = {"kafkaConsumer__pollTimeoutMs": "300", "kafka__fetch__max__wait__ms": "50"}
    with pytest.raises(DataLossError):
        offsets(options_of(subscribe=topic, **patience), topic, 18, 50)
    tolerant = options_of(subscribe=topic, failOnDataLoss="false", **patience)
    assert offsets(tolerant, topic, 18, 50) == [18, 19]


def _only(partition: PartitionData, request: Message) -> FetchResponse:
    """An answer about one partition of the topic that was asked for."""
    assert isinstance(request, FetchRequest)
    (asked,) = request.topics
    topic = FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=[partition])
    return FetchResponse(responses=[topic])


@pytest.mark.slow
def test_records_that_do_not_come_are_not_taken_for_lost(
    kohort: Kohort, options_of: OptionsOf, topic: str
) -> None:
    empty = PartitionData(partition_index=0, high_watermark=20, records=b"")
    kohort.broker.intercept(
        answer(partial(_only, empty)),
        api="Fetch",
    )
    options = options_of(subscribe=topic, failOnDataLoss="false", kafkaConsumer__pollTimeoutMs="100")
    with pytest.raises(ReadTimeoutError):
        offsets(options, topic, 0, 5)


def test_other_refusals_fail_the_task_as_they_are(kohort: Kohort, options_of: OptionsOf, topic: str) -> None:
    refused = PartitionData(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    kohort.broker.intercept(
        answer(partial(_only, refused)),
        api="Fetch",
    )
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets(options_of(subscribe=topic, failOnDataLoss="false"), topic, 0, 5)


def test_a_broker_that_goes_away_and_comes_back_costs_nothing(
    kohort: Kohort, options_of: OptionsOf, topic: str
) -> None:
    rule = kohort.broker.intercept(cut_off, api="Fetch", times=2)
    assert offsets(options_of(subscribe=topic), topic, 0, 20) == list(range(20))
    assert len(rule.seen) == 2


def test_a_worker_that_knows_a_topic_reads_its_new_partitions(
    administer: Administer, options_of: OptionsOf, topic: str, feed: Feed
) -> None:
    options = options_of(subscribe=topic)
    assert offsets(options, topic, 0, 1) == [0]
    administer(lambda admin: admin.create_partitions({topic: 2}))
    feed(topic, 2, partition=1)
    assert [row["offset"] for row in rows(options, topic, 0, 2, partition=1)] == [0, 1]


def test_a_worker_that_knows_a_topic_reads_the_one_made_in_its_place(
    administer: Administer, options_of: OptionsOf, topic: str, feed: Feed
) -> None:
    options = options_of(subscribe=topic)
    assert offsets(options, topic, 0, 1) == [0]
    administer(lambda admin: admin.delete_topics([topic]))
    administer(lambda admin: admin.create_topic(NewTopic(name=topic, partitions=1)))
    feed(topic, 2)
    assert offsets(options, topic, 0, 2) == [0, 1]


def test_a_corrupt_batch_fails_the_task_and_is_named(
    kohort: Kohort, options_of: OptionsOf, topic: str
) -> None:
    kohort.broker.intercept(corrupt(_flip_last_value), api="Fetch")
    with pytest.raises(CorruptBatchError, match=rf"cannot read {topic}-0 at offset \d+"):
        offsets(options_of(subscribe=topic, failOnDataLoss="false"), topic, 0, 20)


def _flip_last_value(body: bytes) -> bytes:
    at = body.rindex(b"v19")
    return body[:at] + b"w" + body[at + 1 :]
