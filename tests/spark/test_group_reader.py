"""The reader of a group as a plain object: offsets, commits, restarts, limits, members of its own kind."""

import threading
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.spark.group_stage import (
    Stage,
    all_offsets,
    checkpointed,
    group_reader,
    share,
    sorted_offsets,
)

from kohort.spark.errors import OptionError
from kohort.spark.group.offsets import GroupOffsetJson
from kohort.spark.tasks import RangePartition
from kohort.testing.broker import Broker
from kohort.testing.intercept import watch
from kohort.testing.plugin import Kohort

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(kohort: Kohort) -> Iterator[Stage]:
    yield Stage(kohort)
    kohort.broker.stop_intercepting()


def test_a_query_alone_reads_everything_and_commits_what_is_durable_one_trigger_later(stage: Stage) -> None:
    stage.write(10)
    query = stage.query()
    assert query.trigger() == 30
    assert stage.committed() == stage.everywhere(0), "where it starts; the batch is not known to be durable"
    last = query.end
    assert query.trigger() == 0
    assert query.end is last, "nothing new is the start itself"
    assert stage.committed() == stage.everywhere(10)
    commits = stage.kohort.broker.intercept(watch, api="OffsetCommit", group=stage.group)
    query.trigger()
    assert commits.seen == [], "once for each new start"
    stage.write(5)
    assert query.trigger() == 15
    assert query.holds == stage.everywhere(15)
    assert sorted_offsets(query) == all_offsets(stage.everywhere(15))
    query.stop()
    assert stage.committed() == stage.everywhere(10), "without the checkpoint a stop does not know more"


def test_a_query_is_one_client_its_questions_share_a_connection_and_the_coordinator_has_one(
    stage: Stage,
) -> None:
    stage.write(3)
    query = stage.query()
    running = set(threading.enumerate())
    opened = stage.kohort.broker.intercept(watch, api="ApiVersions")  # the first request of a connection
    assert query.trigger() == 9
    query.trigger()
    assert len(opened.seen) == 2
    assert {each.name for each in set(threading.enumerate()) - running} == {"kohort consumer"}
    query.stop()


def test_nothing_is_opened_before_the_first_offset_method_and_a_replay_asks_nobody() -> None:
    reader = group_reader("127.0.0.1:1", "t", "g")
    assert reader.initialOffset() == {}
    end: GroupOffsetJson = {
        "t": {"0": {"from": 5, "to": 9, "epoch": 3}, "1": {"from": 7, "to": 7, "epoch": 3}}
    }
    (only,) = reader.partitions({}, end)
    assert isinstance(only, RangePartition)
    assert only.ranges == (("t", 0, 5, 9),)
    assert reader.partitions(end, end) == []
    assert reader.reportLatestOffset() is None
    reader.stop()


def test_ranges_are_cut_for_tasks() -> None:
    reader = group_reader("127.0.0.1:1", "t", "g", maxRecordsPerPartition="2")
    end: GroupOffsetJson = {"t": {"0": {"from": 5, "to": 9, "epoch": 3}}}
    assert len(reader.partitions({}, end)) == 2


def test_partitions_of_ones_own_choice_do_not_go_with_a_group() -> None:
    with pytest.raises(OptionError, match="cannot assign"):
        group_reader("127.0.0.1:1", "", "g", assign='{"t": [0]}')


def test_limits_are_respected(stage: Stage) -> None:
    stage.write(10)
    query = stage.query(maxOffsetsPerTrigger="6")
    assert [query.trigger() for _ in range(6)] == [6, 6, 6, 6, 6, 0]
    query.stop()
    patient = stage.query(minOffsetsPerTrigger="4")
    stage.write(1)
    assert patient.trigger() == 0
    stage.write(1)
    assert patient.trigger() == 6
    patient.stop()
    unlimited = stage.query(maxOffsetsPerTrigger="1")
    end = unlimited.reader.latestOffset({}, ReadAllAvailable())
    (share,) = unlimited.reader.partitions({}, end)
    assert isinstance(share, RangePartition)
    assert len(share.ranges) == 3
    unlimited.stop()


def test_a_query_that_reads_what_is_there_and_ends(stage: Stage) -> None:
    stage.write(4)
    query = stage.query(maxOffsetsPerTrigger="9", minOffsetsPerTrigger="8")
    query.reader.prepareForTriggerAvailableNow()
    stage.write(4)
    assert sum(query.trigger() for _ in range(4)) == 12
    assert query.trigger() == 0
    assert stage.committed() == stage.everywhere(4)
    query.stop()


def test_a_stop_commits_the_last_batch_if_the_checkpoint_shows_that_it_is_done(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("checkpoint")
    stage.write(3)
    query = stage.query(kohort__checkpoint=root.as_uri())
    query.trigger()
    checkpointed(root, query, offsets=0, commits=-1)
    query.stop()
    assert stage.committed() == stage.everywhere(0), "in the middle of a batch"
    again = stage.query(query.end, kohort__checkpoint=str(root))
    stage.write(2)
    again.trigger()
    checkpointed(root, again, offsets=1, commits=1)
    again.stop()
    assert stage.committed() == stage.everywhere(5)


@pytest.fixture(params=["classic", "consumer"])
def settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """Of a query, by protocol; that of consumer groups leaves the interval of heartbeats to the broker."""
    protocol: str = request.param
    none = {} if protocol == "classic" else {"kafka__heartbeat__interval__ms": ""}
    return {"kafka__group__protocol": protocol, **none}


@pytest.fixture
def often(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """On a broker whose members heartbeat often, so that they learn of each other soon."""
    often = dict.fromkeys(
        ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"), 50
    )
    with Broker(configs={"group.initial.rebalance.delay.ms": 0, **often}) as broker:
        yield Stage(Kohort(broker, request.node.name))


def test_two_queries_share_their_group_and_hand_over(often: Stage, settings: dict[str, str]) -> None:
    often.write(5)
    first = often.query(None, **settings)
    assert first.trigger() == 15
    second = often.query(None, **settings)
    share(first, second, partitions=3)
    assert {*first.holds} | {*second.holds} == {*often.places}
    often.write(5)
    often.catch_up(first, second, each=10)
    second.stop()
    first.trigger_until(3)
    often.write(5)
    often.catch_up(first, each=15)
    assert sorted_offsets(first, second) == all_offsets(often.everywhere(15)), "each record once"
    first.stop()


def test_a_static_member_comes_back_without_a_rebalance(stage: Stage) -> None:
    stage.write(2)
    joins = stage.kohort.broker.intercept(watch, api="JoinGroup", group=stage.group)
    leaves = stage.kohort.broker.intercept(watch, api="LeaveGroup", group=stage.group)
    first = stage.query(kohort__instance="one")
    first.trigger()
    first.trigger()
    first.stop()
    joins_before = len(joins.seen)
    again = stage.query(first.end, kohort__instance="one")
    stage.write(1)
    assert again.trigger() == 3
    epochs = [int(span["epoch"]) for end in (first.end, again.end) for span in end[stage.topic].values()]
    assert set(epochs) == {1}, "the generation went on"
    assert len(joins.seen) == joins_before + 1
    assert leaves.seen == []
    again.stop()


def test_new_partitions_of_a_topic_are_read_from_their_beginning(stage: Stage) -> None:
    stage.write(2)
    query = stage.query(startingOffsets="latest", kafka__metadata__max__age__ms="50")
    query.trigger()
    stage.ask(lambda admin: admin.create_partitions({stage.topic: 4}))
    stage.write(4, partitions=[3])
    query.trigger_until(4)
    query.trigger()
    assert [one[1:] for one in query.read] == [(3, 0, 4)]
    query.stop()
