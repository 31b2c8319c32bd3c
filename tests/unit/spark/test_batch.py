"""Batch queries as plain objects: what is planned, and what is read."""

import json
import logging
import pickle

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, InputPartition
from tests.unit.spark.conftest import Administer, Feed, OptionsOf

from kohort.spark.batch import BatchReader
from kohort.spark.errors import DataLossError, NoMatchingOffsetError, OptionError
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import OffsetRange, topic_partition
from kohort.spark.options import SourceOptions
from kohort.spark.pruning import PruningReader
from kohort.testing.plugin import Kohort


@pytest.fixture
def topic(kohort: Kohort, feed: Feed) -> str:
    """Ten records in the first partition, four in the second, none in the third."""
    name = kohort.topic(partitions=3)
    feed(name, 10)
    feed(name, 4, partition=1)
    return name


def planned(options: SourceOptions) -> list[tuple[int, int, int]]:
    return [one[1:] for share in BatchReader(options).partitions() for one in share.ranges]


def of_each(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(offsets)}})


def test_every_record_is_read_once_by_a_reader_that_was_pickled(options_of: OptionsOf, topic: str) -> None:
    reader = BatchReader(options_of(subscribe=topic, minPartitions="5"))
    shares = reader.partitions()
    assert len(shares) == 5
    copy = pickle.loads(pickle.dumps(reader))
    rows = [row for share in shares for batch in copy.read(share) for row in batch.to_pylist()]
    assert sorted((row["partition"], row["offset"]) for row in rows) == (
        [(0, offset) for offset in range(10)] + [(1, offset) for offset in range(4)]
    )


def test_where_no_range_was_planned_there_is_nothing_to_read(options_of: OptionsOf, topic: str) -> None:
    assert list(BatchReader(options_of(subscribe=topic)).read(InputPartition(None))) == []


def test_offsets_say_where_to_start_and_to_end(options_of: OptionsOf, topic: str) -> None:
    options = options_of(
        subscribe=topic, startingOffsets=of_each(topic, 2, -2, -2), endingOffsets=of_each(topic, 7, 3, -1)
    )
    assert planned(options) == [(0, 2, 7), (1, 0, 3)]


def test_offsets_must_be_given_for_every_partition(options_of: OptionsOf, topic: str) -> None:
    with pytest.raises(OptionError, match=f"exactly the partitions that are read: {topic}-2"):
        planned(options_of(subscribe=topic, startingOffsets=of_each(topic, 2, -2)))


def test_times_say_where_to_start_and_to_end(options_of: OptionsOf, topic: str) -> None:
    options = options_of(
        subscribe=topic,
        startingTimestamp="3000",
        startingOffsetsByTimestampStrategy="latest",
        endingTimestamp="6000",
    )
    assert planned(options) == [(0, 2, 5), (1, 2, 4)]


def test_a_start_after_the_last_record_is_an_error(options_of: OptionsOf, topic: str) -> None:
    with pytest.raises(NoMatchingOffsetError, match=f"{topic}-2 has no record"):
        planned(options_of(subscribe=topic, startingTimestamp="0"))


def test_a_group_says_where_to_start(kohort: Kohort, options_of: OptionsOf, topic: str) -> None:
    options = options_of(subscribe=topic, startingOffsets="group", kafka__group__id=kohort.group())
    lookup = Lookup(options)
    lookup.commit({topic_partition(topic, 0): 8})
    lookup.close()
    assert planned(options) == [(0, 8, 10), (1, 0, 4)]


def test_ranges_are_cut_to_the_size_that_is_wanted(options_of: OptionsOf, topic: str) -> None:
    options = options_of(subscribe=topic, maxRecordsPerPartition="4")
    assert planned(options) == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 4)]


def test_a_pattern_without_a_match_reads_nothing(options_of: OptionsOf) -> None:
    assert planned(options_of(subscribePattern="no-such-topic.*")) == []


def test_records_that_expired_fail_the_plan(
    administer: Administer, options_of: OptionsOf, topic: str
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    with pytest.raises(DataLossError, match=rf"{topic}-0 \[2, 10\) is wanted, and the log has \[6, 10\)"):
        planned(options_of(subscribe=topic, startingOffsets=of_each(topic, 2, -2, -2)))
    assert planned(options_of(subscribe=topic)) == [(0, 6, 10), (1, 0, 4)], "earliest loses nothing"


def test_what_is_there_of_expired_or_coming_records_can_be_read(
    administer: Administer, options_of: OptionsOf, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    options = options_of(
        subscribe=topic,
        startingOffsets=of_each(topic, 2, 70, -2),
        endingOffsets=of_each(topic, 99, 80, -1),
        failOnDataLoss="false",
    )
    with caplog.at_level(logging.WARNING):
        assert planned(options) == [(0, 6, 10)]
    assert "is wanted, and the log has" in caplog.text


def test_a_start_behind_the_end_of_the_log_is_a_loss(
    options_of: OptionsOf, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    behind = of_each(topic, 3, 50, -2)
    with pytest.raises(DataLossError, match=f"{topic}-1 is wanted from offset 50, and the log ends at 4"):
        planned(options_of(subscribe=topic, startingOffsets=behind))
    with caplog.at_level(logging.WARNING):
        read = planned(options_of(subscribe=topic, startingOffsets=behind, failOnDataLoss="false"))
    assert read == [(0, 3, 10)]
    assert "the log ends at 4; reading nothing of it" in caplog.text


def test_an_end_before_the_start_is_an_error(options_of: OptionsOf, topic: str) -> None:
    options = options_of(
        assign=json.dumps({topic: [0]}),
        startingTimestamp="6000",
        endingTimestamp="3000",
        failOnDataLoss="false",
    )
    with pytest.raises(OptionError, match=f"{topic}-0 is to be read from offset 5 to 2"):
        planned(options)


def test_a_group_may_be_past_the_end_that_is_asked_for(
    kohort: Kohort, options_of: OptionsOf, topic: str
) -> None:
    options = options_of(
        subscribe=topic,
        startingOffsets="group",
        endingOffsets=of_each(topic, 5, 3, -1),
        kafka__group__id=kohort.group(),
    )
    lookup = Lookup(options)
    lookup.commit({topic_partition(topic, 0): 8})
    lookup.close()
    assert planned(options) == [(1, 0, 3)]


def test_filters_leave_out_what_need_not_be_read(options_of: OptionsOf, topic: str) -> None:
    reader = PruningReader(options_of(subscribe=topic, kohort__push__filters="true"))
    wanted = [EqualTo(("partition",), 0), GreaterThanOrEqual(("offset",), 8), EqualTo(("key",), b"k")]
    assert list(reader.pushFilters(wanted)) == wanted[2:]
    assert [share.ranges for share in reader.partitions()] == [(OffsetRange(topic, 0, 8, 10),)]
