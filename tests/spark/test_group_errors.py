"""What goes wrong in a group: each error at commit, a batch that takes too long, records that are gone."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark.group_stage import Driven, Stage, all_offsets, run, sorted_offsets

from kohort.broker.context import Result
from kohort.client.admin.results import NewTopic
from kohort.client.errors import FencedInstanceIdError
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.spark.errors import DataLossError, TopicMadeAgainError
from kohort.spark.group.offsets import GroupOffsetJson
from kohort.spark.tasks import RangePartition
from kohort.testing import Broker
from kohort.testing.intercept import Proceed, Seen, answer, cut_off, cut_off_after, watch
from kohort.testing.plugin import Kohort
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

pytestmark = pytest.mark.slow
_E = ErrorCode
FENCING = [_E.UNKNOWN_MEMBER_ID, _E.ILLEGAL_GENERATION]
PASSING = [
    _E.COORDINATOR_NOT_AVAILABLE,
    _E.COORDINATOR_LOAD_IN_PROGRESS,
    _E.NOT_COORDINATOR,
    _E.REQUEST_TIMED_OUT,
    _E.UNKNOWN_TOPIC_OR_PARTITION,
]


def refusing(code: ErrorCode) -> Callable[[Message], Message]:
    """The answer to a commit whose every partition is refused."""

    def reply(request: Message) -> Message:
        assert isinstance(request, OffsetCommitRequest)
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return reply


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A member that was only told it is unknown stays behind as a ghost: sessions are short."""
    with Broker(configs={"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}) as one:
        yield one


@pytest.fixture
def stage(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Stage]:
    yield Stage(Kohort(broker, request.node.name))
    broker.stop_intercepting()


@pytest.mark.parametrize("code", FENCING)
def test_a_fenced_query_joins_again_and_reads_nothing_twice(
    stage: Stage, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    stage.write(4)
    query = stage.query(kafka__session__timeout__ms="1500")
    assert query.trigger() == 12
    stage.kohort.broker.intercept(answer(refusing(code)), api="OffsetCommit", group=stage.group, times=1)
    with caplog.at_level(logging.WARNING, "kohort.spark"):
        assert query.trigger() == 0
    assert "went on without this query" in caplog.text
    stage.write(1)
    query.trigger_until(3)
    stage.catch_up(query, each=5)
    assert sorted_offsets(query) == all_offsets(stage.everywhere(5))
    query.stop()


def test_another_query_with_the_same_instance_id_ends_the_first(stage: Stage) -> None:
    stage.write(2)
    first = stage.query(kohort__instance="one")
    assert first.trigger() == 6
    second = stage.query(kohort__instance="one")
    assert second.trigger() == 6, "the first has not committed what it read"
    read = len(first.read)
    with pytest.raises(FencedInstanceIdError, match="one"):
        run(first, until=lambda: False)
    assert len(first.read) == read, "it read nothing that had gone to the second"
    stage.catch_up(second, each=2)
    first.stop()
    second.stop()


def test_a_rebalance_in_progress_is_answered_and_then_committed(stage: Stage) -> None:
    stage.write(2)
    query = stage.query()
    query.trigger()
    refused = refusing(_E.REBALANCE_IN_PROGRESS)
    stage.kohort.broker.intercept(answer(refused), api="OffsetCommit", group=stage.group, times=1)
    stage.catch_up(query, each=2)
    assert sorted_offsets(query) == all_offsets(stage.everywhere(2))
    query.stop()


@pytest.mark.parametrize("code", PASSING)
def test_what_passes_is_waited_for(stage: Stage, code: ErrorCode) -> None:
    stage.write(2)
    query = stage.query()
    query.trigger()
    refused = stage.kohort.broker.intercept(
        answer(refusing(code)), api="OffsetCommit", group=stage.group, times=2
    )
    assert query.trigger() == 0
    assert len(refused.seen) == 2
    assert stage.committed() == stage.everywhere(2)
    query.stop()


@pytest.mark.parametrize("cut", [cut_off, cut_off_after])
def test_a_commit_without_an_answer_is_repeated(stage: Stage, cut: object) -> None:
    assert callable(cut)
    stage.write(2)
    query = stage.query()
    query.trigger()
    stage.kohort.broker.intercept(cut, api="OffsetCommit", group=stage.group, times=1)
    assert query.trigger() == 0
    assert stage.committed() == stage.everywhere(2)
    query.stop()


def test_a_batch_that_outlasts_the_poll_interval_is_dropped_and_not_read_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    left = threading.Event()

    def note(_seen: Seen, proceed: Proceed) -> Result:
        left.set()
        return proceed()

    stage.kohort.broker.intercept(note, api="LeaveGroup", group=stage.group, times=1)
    stage.write(3)
    query = stage.query(kafka__max__poll__interval__ms="1200")
    assert query.trigger() == 9
    assert left.wait(30), "the member gives up by itself while the batch runs"
    with caplog.at_level(logging.WARNING, "kohort.spark"):
        query.trigger()
    assert "waits 1.2 s for a member between batches" in caplog.text
    assert "went on without this query" in caplog.text
    stage.catch_up(query, each=3)
    assert sorted_offsets(query) == all_offsets(stage.everywhere(3))
    query.stop()


# --- records that are gone --------------------------------------------------------------------


def ranges_of(query: Driven, end: GroupOffsetJson) -> int:
    """How many ranges of offsets the batch from nothing to ``end`` has."""
    planned = query.reader.partitions({}, end)
    return sum(len(one.ranges) for one in planned if isinstance(one, RangePartition))


def test_a_batch_of_a_topic_that_was_made_again_is_not_replayed_from_the_new_one(stage: Stage) -> None:
    stage.write(10)
    query = stage.query()
    assert query.trigger() == 30
    assert ranges_of(query, query.end) == 3
    query.stop()
    assert ranges_of(stage.query(), query.end) == 3
    remake(stage)
    stage.write(15)
    with pytest.raises(TopicMadeAgainError, match="made again"):
        stage.query().reader.partitions({}, query.end)
    assert stage.query(failOnDataLoss="false").reader.partitions({}, query.end) == []


@pytest.mark.parametrize("each", [2, 10, 15], ids=["shorter", "as long", "longer"])
def test_a_topic_that_is_made_again_under_the_query(stage: Stage, each: int) -> None:
    stage.write(10)
    # The group may notice that the topic is gone, and then that it is back.
    strict = stage.query(kafka__metadata__max__age__ms="200")
    careless = stage.query(
        failOnDataLoss="false", kafka__group__id=f"{stage.group}-2", kafka__metadata__max__age__ms="200"
    )
    for query in (strict, careless):
        assert query.trigger() == 30
        query.trigger()
    remake(stage)
    stage.write(each)
    with pytest.raises(DataLossError, match=r"made again|any more"):
        run(strict, until=lambda: False)
    strict.stop()
    run(careless, until=lambda: len(careless.offsets) >= 30 + 3 * each)
    careless.trigger()
    assert sorted(careless.offsets[30:]) == all_offsets(stage.everywhere(each)), "all of the new one"
    careless.stop()


def test_a_topic_that_is_gone_for_a_while_is_read_from_its_start_when_it_is_back(stage: Stage) -> None:
    stage.write(10)
    query = stage.query(
        failOnDataLoss="false", kafka__metadata__max__age__ms="50", kafka__default__api__timeout__ms="1500"
    )
    assert query.trigger() == 30
    stage.ask(lambda admin: admin.delete_topics([stage.topic]))
    run(query, until=lambda: not query.holds)
    stage.ask(lambda admin: admin.create_topic(NewTopic(name=stage.topic, partitions=3)))
    stage.write(15)
    run(query, until=lambda: len(query.offsets) >= 75)
    assert sorted(query.offsets[30:]) == all_offsets(stage.everywhere(15))
    query.stop()


def test_a_topic_that_is_deleted_under_the_query(stage: Stage) -> None:
    stage.write(3)
    strict = stage.query(kafka__default__api__timeout__ms="1500")
    strict.trigger()
    stage.ask(lambda admin: admin.delete_topics([stage.topic]))
    with pytest.raises(DataLossError, match="any more"):
        strict.trigger()
    strict.stop()


def remake(stage: Stage) -> None:
    stage.ask(lambda admin: admin.delete_topics([stage.topic]))
    stage.ask(lambda admin: admin.create_topic(NewTopic(name=stage.topic, partitions=3)))


def test_heartbeats_go_on_between_triggers(stage: Stage) -> None:
    beating = threading.Semaphore(0)

    def note(_seen: Seen, proceed: Proceed) -> Result:
        beating.release()
        return proceed()

    query = stage.query()
    query.trigger()
    stage.kohort.broker.intercept(note, api="Heartbeat", group=stage.group)
    for _ in range(3):
        assert beating.acquire(timeout=30)
    fetched = stage.kohort.broker.intercept(watch, api="Fetch", client=f"spark-{stage.group}")
    query.trigger()
    assert fetched.seen == [], "the member reads nothing"
    query.stop()


def test_a_broker_that_restarts_in_a_batch_is_waited_for(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with Broker(data=tmp_path, configs={"group.initial.rebalance.delay.ms": 0}) as restarting:
        stage = Stage(Kohort(restarting, request.node.name))
        stage.write(3)
        query = stage.query()
        assert query.trigger() == 9
        restarting.restart()
        stage.write(2)
        stage.catch_up(query, each=5)
        assert sorted_offsets(query) == all_offsets(stage.everywhere(5))
        query.stop()
