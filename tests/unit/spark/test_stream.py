"""Streams without membership as plain objects, called as Spark calls them."""

import json
import logging
import pickle
from collections.abc import Callable, Collection, Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.unit.spark.conftest import Administer, Feed, OptionsOf

from kohort import Consumer
from kohort.client.admin.results import NewTopic
from kohort.model.topics import TopicPartition
from kohort.spark.errors import DataLossError, GroupInUseError, TopicMadeAgainError
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import OffsetJson, Offsets, topic_partition
from kohort.spark.stream import StreamReader
from kohort.testing.plugin import Kohort

EVERYTHING = ReadAllAvailable()
Streams = Callable[..., StreamReader]


@pytest.fixture
def topic(kohort: Kohort, feed: Feed) -> str:
    """Ten records in the first of two partitions."""
    name = kohort.topic(partitions=2)
    feed(name, 10)
    return name


@pytest.fixture
def streams(options_of: OptionsOf, topic: str) -> Iterator[Streams]:
    """Readers of the topic with these options; they are stopped after the test."""
    made: list[StreamReader] = []

    def make(now_ms: Callable[[], float] | None = None, **given: str) -> StreamReader:
        named = {"subscribe": topic, "startingOffsets": "earliest"} | given
        if {"assign", "subscribePattern"} & set(given):
            del named["subscribe"]
        made.append(StreamReader(options_of(streaming=True, **named), now_ms))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def plain(offset: OffsetJson) -> dict[str, dict[str, int | str]]:
    """Without the ids of topics: the form of Spark's connector."""
    return {
        topic: {number: at for number, at in one.items() if number != "id"} for topic, one in offset.items()
    }


def made_again(administer: Administer, topic: str, partitions: int = 2) -> None:
    administer(lambda admin: admin.delete_topics([topic]))
    administer(lambda admin: admin.create_topic(NewTopic(name=topic, partitions=partitions)))


def read(reader: StreamReader, start: dict, end: dict) -> list[tuple[int, int]]:  # type: ignore[type-arg]  # JSON
    """Partition and offset of what a batch reads, by a copy of the reader, as in tasks."""
    shares = reader.partitions(start, end)
    copy = pickle.loads(pickle.dumps(reader))
    rows = [row for share in shares for batch in copy.read(share) for row in batch.to_pylist()]
    return sorted((row["partition"], row["offset"]) for row in rows)


# --- beginning --------------------------------------------------------------------------------


def test_a_new_query_starts_where_the_options_say(streams: Streams, topic: str) -> None:
    assert plain(streams().initialOffset()) == {topic: {"0": 0, "1": 0}}
    assert plain(streams(startingOffsets="latest").initialOffset()) == {topic: {"0": 10, "1": 0}}
    wanted = json.dumps({topic: {"0": 3, "1": -1}})
    assert plain(streams(startingOffsets=wanted).initialOffset()) == {topic: {"0": 3, "1": 0}}


def test_the_start_is_the_same_when_spark_asks_again(streams: Streams, topic: str, feed: Feed) -> None:
    reader = streams(startingOffsets="latest")
    first = reader.initialOffset()
    feed(topic, 1)
    assert reader.initialOffset() == first


def test_the_checkpoint_has_partitions_in_order_and_the_id_of_their_topic(
    kohort: Kohort, options_of: OptionsOf
) -> None:
    wide = kohort.topic(partitions=11)
    reader = StreamReader(options_of(streaming=True, subscribe=wide, startingOffsets="earliest"))
    assert list(reader.initialOffset()[wide]) == [*(str(number) for number in range(11)), "id"]
    reader.stop()


# --- batches ----------------------------------------------------------------------------------


def test_a_batch_reads_what_came_since_the_last(streams: Streams, topic: str, feed: Feed) -> None:
    reader = streams()
    start = reader.initialOffset()
    first = reader.latestOffset(start, EVERYTHING)
    assert read(reader, start, first) == [(0, offset) for offset in range(10)]
    feed(topic, 2, partition=1)
    second = reader.latestOffset(first, EVERYTHING)
    assert read(reader, first, second) == [(1, 0), (1, 1)]
    about = {"@kohort": {"lag": 0, "largest_lag": 0, "partitions": 2}}
    assert reader.reportLatestOffset() == plain(second) | about


def test_without_news_the_offset_stays_the_very_same(streams: Streams) -> None:
    reader = streams()
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    again = json.loads(json.dumps(end))
    assert reader.latestOffset(again, EVERYTHING) is again
    assert reader.partitions(end, end) == []


def test_large_ranges_are_cut_into_tasks(streams: Streams, topic: str) -> None:
    reader = streams(minPartitions="5")
    assert len(reader.partitions({topic: {"0": 0}}, {topic: {"0": 10}})) == 5


# --- limits -----------------------------------------------------------------------------------


def test_the_limit_that_spark_hears_of(streams: Streams) -> None:
    assert streams().getDefaultReadLimit() == ReadAllAvailable()
    assert streams(maxOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert streams(minOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMinRows(7)
    both = streams(minOffsetsPerTrigger="3", maxOffsetsPerTrigger="7")
    assert both.getDefaultReadLimit() == ReadMaxRows(7)


def test_a_limit_is_shared_by_volume(streams: Streams, topic: str, feed: Feed) -> None:
    feed(topic, 30, partition=1)
    reader = streams()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(8))
    assert plain(end) == {topic: {"0": 2, "1": 6}}
    about = {"lag": 32, "largest_lag": 24, "partitions": 2}  # behind the batch of 2 and 6
    assert reader.reportLatestOffset() == {topic: {"0": 10, "1": 30}, "@kohort": about}


def test_a_limited_batch_asks_once_where_the_logs_start(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ask = Lookup.log_starts

    def counted(self: Lookup, partitions: Collection[TopicPartition]) -> Offsets:
        asked.extend([1] if partitions else [])
        return ask(self, partitions)

    reader = streams()
    start = reader.initialOffset()
    monkeypatch.setattr(Lookup, "log_starts", counted)
    end = reader.latestOffset(start, ReadMaxRows(4))
    assert len(reader.partitions(start, end)) == 1
    assert len(asked) == 1
    reader.partitions(start, {**end})
    reader.partitions(start, start | {topic: {**places, "0": 2} for topic, places in start.items()})
    assert len(asked) == 2, "another end is a replay, and looked up"


def test_expired_offsets_take_no_share_of_a_limit(
    streams: Streams, topic: str, administer: Administer
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    reader = streams(failOnDataLoss="false")
    start: OffsetJson = {topic: {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ReadMaxRows(2))
    assert plain(end) == {topic: {"0": 8, "1": 0}}
    assert read(reader, start, end) == [(0, 6), (0, 7)]


def test_a_batch_waits_for_enough_records_but_not_for_ever(streams: Streams, topic: str, feed: Feed) -> None:
    clock = [0.0]
    reader = streams(lambda: clock[0], minOffsetsPerTrigger="5", maxTriggerDelay="1m")
    limit = ReadMinRows(5)
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert plain(end) == {topic: {"0": 10, "1": 0}}
    feed(topic, 3)
    assert reader.latestOffset(end, limit) is end
    clock[0] = 60_000
    assert plain(reader.latestOffset(end, limit)) == {topic: {"0": 13, "1": 0}}


def test_both_limits_hold_together(streams: Streams, topic: str, feed: Feed) -> None:
    reader = streams(lambda: 0.0, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert plain(end) == {topic: {"0": 8, "1": 0}}
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end


def test_available_now_reads_up_to_where_it_began_whatever_comes(
    streams: Streams, topic: str, feed: Feed
) -> None:
    reader = streams(minOffsetsPerTrigger="8", maxOffsetsPerTrigger="8")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(8))
    feed(topic, 5)
    second = reader.latestOffset(first, ReadMaxRows(8))
    assert plain(second) == {topic: {"0": 10, "1": 0}}, "the last two do not wait for more"
    assert reader.latestOffset(second, ReadMaxRows(8)) is second


# --- topics that change -----------------------------------------------------------------------


def test_a_new_partition_starts_at_its_beginning(
    streams: Streams, topic: str, feed: Feed, administer: Administer
) -> None:
    reader = streams(startingOffsets="latest")
    start = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    administer(lambda admin: admin.create_partitions({topic: 3}))
    feed(topic, 2, partition=2)
    end = reader.latestOffset(start, EVERYTHING)
    assert plain(end) == {topic: {"0": 10, "1": 0, "2": 2}}
    assert read(reader, start, end) == [(2, 0), (2, 1)]


def test_a_new_topic_of_a_pattern_starts_at_its_beginning(
    streams: Streams, topic: str, feed: Feed, administer: Administer
) -> None:
    reader = streams(subscribePattern=f"{topic}.*", startingOffsets="latest")
    start = reader.initialOffset()
    administer(lambda admin: admin.create_topic(NewTopic(name=f"{topic}-too", partitions=1)))
    feed(f"{topic}-too", 3)
    end = reader.latestOffset(start, EVERYTHING)
    assert plain(end) == plain(start) | {f"{topic}-too": {"0": 3}}
    assert read(reader, start, end) == [(0, 0), (0, 1), (0, 2)]


def test_a_new_partition_that_lost_its_first_records_is_a_loss(
    streams: Streams, topic: str, administer: Administer
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    start: OffsetJson = {topic: {"1": 0}}
    end: OffsetJson = {topic: {"0": 10, "1": 0}}
    with pytest.raises(DataLossError, match="are new and have lost their first records"):
        streams().partitions(start, end)
    assert read(streams(failOnDataLoss="false"), start, end) == [(0, 6), (0, 7), (0, 8), (0, 9)]


def test_expired_records_fail_the_plan_rather_than_each_attempt_of_a_task(
    streams: Streams, topic: str, administer: Administer
) -> None:
    administer(lambda admin: admin.delete_records({topic_partition(topic, 0): 6}))
    start: OffsetJson = {topic: {"0": 2, "1": 0}}
    end: OffsetJson = {topic: {"0": 9, "1": 0}}
    with pytest.raises(DataLossError, match=r"\[2, 9\) is wanted, and the log starts at 6"):
        streams().partitions(start, end)
    assert read(streams(failOnDataLoss="false"), start, end) == [(0, 6), (0, 7), (0, 8)]


def test_a_replay_of_a_deleted_topic_is_a_loss(streams: Streams, topic: str, administer: Administer) -> None:
    administer(lambda admin: admin.delete_topics([topic]))
    start: OffsetJson = {topic: {"0": 2}}
    end: OffsetJson = {topic: {"0": 9}}
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        streams().partitions(start, end)
    assert read(streams(failOnDataLoss="false"), start, end) == []


def test_a_deleted_topic_is_left_out_if_that_is_wanted(
    streams: Streams, topic: str, administer: Administer, caplog: pytest.LogCaptureFixture
) -> None:
    reader = streams(failOnDataLoss="false")
    start = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    administer(lambda admin: admin.delete_topics([topic]))
    with caplog.at_level(logging.WARNING):
        end = reader.latestOffset(start, EVERYTHING)
    assert end == {}
    assert reader.partitions(start, end) == []
    assert "is gone" in caplog.text


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("count", [3, 10, 14])
def test_a_topic_made_again_is_read_from_its_beginning(
    streams: Streams, topic: str, feed: Feed, administer: Administer, count: int, is_restarted: bool
) -> None:
    reader = streams(failOnDataLoss="false", fetchOffset__retryIntervalMs="0")
    start = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    made_again(administer, topic, partitions=1)
    feed(topic, count)
    if is_restarted:
        reader = streams(failOnDataLoss="false", fetchOffset__retryIntervalMs="0")
    end = reader.latestOffset(start, EVERYTHING)
    assert read(reader, start, end) == [(0, offset) for offset in range(count)]
    assert reader.latestOffset(end, EVERYTHING) is end


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_topic_made_again_fails_the_query_unless_that_is_wanted(
    streams: Streams, topic: str, feed: Feed, administer: Administer, is_restarted: bool
) -> None:
    reader = streams()
    start = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    made_again(administer, topic)
    feed(topic, 40)
    with pytest.raises(TopicMadeAgainError, match=f"{topic} was deleted and made again"):
        (streams() if is_restarted else reader).latestOffset(start, EVERYTHING)


def test_a_batch_of_a_topic_made_again_is_not_replayed_from_the_new_one(
    streams: Streams, topic: str, feed: Feed, administer: Administer, caplog: pytest.LogCaptureFixture
) -> None:
    planner = streams()
    start = planner.initialOffset()
    end = planner.latestOffset(start, EVERYTHING)
    made_again(administer, topic)
    feed(topic, 40)
    with pytest.raises(TopicMadeAgainError):
        streams().partitions(start, end)
    careless = streams(failOnDataLoss="false")
    assert careless.partitions(start, end) == []
    assert "was deleted and made again" in caplog.text
    after = careless.latestOffset(end, EVERYTHING)
    assert read(careless, end, after) == [(0, offset) for offset in range(40)]


def test_the_group_hears_nothing_of_a_topic_that_was_made_again(
    kohort: Kohort, streams: Streams, topic: str, feed: Feed, administer: Administer
) -> None:
    options = {"commit": "group", "kafka__group__id": kohort.group(), "failOnDataLoss": "false"}
    start = streams(**options).latestOffset(streams(**options).initialOffset(), EVERYTHING)
    made_again(administer, topic)
    feed(topic, 40)
    streams(**options).latestOffset(start, EVERYTHING)
    assert _committed(administer, options["kafka__group__id"]) == {}


def test_a_checkpoint_without_ids_goes_on_and_gets_them(streams: Streams, topic: str, feed: Feed) -> None:
    reader = streams()
    old: OffsetJson = {topic: {"0": 4, "1": 0}}
    end = reader.latestOffset(old, EVERYTHING)
    assert read(reader, old, end) == [(0, offset) for offset in range(4, 10)]
    assert end == {topic: {"0": 10, "1": 0, "id": reader.initialOffset()[topic]["id"]}}


def test_a_checkpoint_ahead_of_its_log_is_a_loss(streams: Streams, topic: str) -> None:
    reader = streams(fetchOffset__retryIntervalMs="0")
    with pytest.raises(DataLossError, match=f"{topic}-0 now ends at 10; it was read up to offset 99"):
        reader.latestOffset({topic: {"0": 99, "1": 0}}, EVERYTHING)


# --- groups -----------------------------------------------------------------------------------


def test_a_group_hears_of_what_spark_has_made_durable(
    kohort: Kohort, streams: Streams, topic: str, administer: Administer
) -> None:
    group = kohort.group()
    reader = streams(commit="group", kafka__group__id=group)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(4))
    assert _committed(administer, group) == {0: 0, 1: 0}, "of the batch that is planned nothing is known yet"
    reader.latestOffset(end, ReadMaxRows(4))
    assert _committed(administer, group) == {0: 4, 1: 0}


def test_a_group_hears_of_each_offset_once(kohort: Kohort, streams: Streams) -> None:
    from kohort.testing.intercept import watch

    commits = kohort.broker.intercept(watch, api="OffsetCommit")
    reader = streams(commit="group", kafka__group__id=kohort.group())
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    for _ in range(3):
        reader.latestOffset(end, EVERYTHING)
    kohort.broker.stop_intercepting()
    assert len(commits.seen) == 2


def test_a_new_query_starts_where_a_group_is(kohort: Kohort, streams: Streams, topic: str) -> None:
    group = {"commit": "group", "kafka__group__id": kohort.group()}
    streams(**group).latestOffset({topic: {"0": 7}}, EVERYTHING)
    reader = streams(startingOffsets="group", **group)
    assert plain(reader.initialOffset()) == {topic: {"0": 7, "1": 0}}


@pytest.mark.slow
def test_a_group_with_members_refuses_commits_from_outside(
    kohort: Kohort, streams: Streams, topic: str
) -> None:
    group = kohort.group()
    reader = streams(commit="group", kafka__group__id=group)
    start = reader.initialOffset()
    with Consumer(topic, bootstrap_servers=kohort.bootstrap, group_id=group) as member:
        while not member.assignment():
            member.poll(100)
        with pytest.raises(GroupInUseError, match=group):
            reader.latestOffset(start, EVERYTHING)


def _committed(administer: Administer, group: str) -> dict[int, int]:
    found = administer(lambda admin: admin.list_group_offsets(group))
    return {where.partition: one.offset for where, one in found.items()}
