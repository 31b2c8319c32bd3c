"""One run of a query in its group, with a member and logs that do as they are told."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from tests.property.spark.group_world import OPTIONS, PARTITIONS, World, WorldMember

from kohort.client.errors import BrokerError
from kohort.client.membership.errors import OffsetFetchTimeoutError
from kohort.model.errors import ErrorCode
from kohort.model.topics import TopicPartition
from kohort.spark.errors import OptionError
from kohort.spark.group_plan import NOT_ASSIGNED, Assignment
from kohort.spark.group_query import GroupQuery, Surroundings
from kohort.spark.member import NotJoinedError
from kohort.spark.offsets import AtOffsets, FromGroup, Latest, Offsets, Place
from kohort.spark.options import SourceOptions

A, B, C = PARTITIONS


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Waiting(WorldMember):
    """A member the group keeps waiting; notes how long it was ready to wait."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.waited: list[float] = []
        self.is_held_up = False

    def poll(self, timeout_ms: float) -> Assignment:
        self.waited.append(timeout_ms)
        return NOT_ASSIGNED if self.is_held_up else super().poll(timeout_ms)


class Unreachable(World):
    """Logs that cannot be asked for a while."""

    is_away = False

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        if self.is_away:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "list offsets")
        return super().log_ends(partitions)


def started(world: World, options: SourceOptions = OPTIONS) -> tuple[GroupQuery, Waiting, Clock]:
    member, clock = Waiting(world), Clock()
    return GroupQuery(options, Surroundings(member, world, world.log_ends, clock)), member, clock


def test_a_group_that_does_not_settle_is_asked_again_with_the_next_trigger() -> None:
    world = World()
    world.ends[A] = 3
    query, member, _ = started(world)
    member.is_held_up = True
    assert query.next_end({}, None) == {}
    member.is_held_up = False
    end = query.next_end({}, None)
    assert end["t"]["0"] == {"from": 0, "to": 3, "epoch": 1}
    query.next_end(end, None)
    assert member.waited == [10_000, 10_000, 200], "as long as it takes to join; less while there is work"


def test_a_run_that_ends_by_itself_fails_rather_than_ending_without_an_assignment() -> None:
    query, member, _ = started(World())
    member.is_held_up = True
    with pytest.raises(NotJoinedError, match="60 s"):
        query.take_target()


def test_a_broker_that_is_away_costs_a_trigger_of_a_running_query(caplog: pytest.LogCaptureFixture) -> None:
    world = Unreachable()
    query, _, _ = started(world)
    assert query.next_end({}, None) == {}
    world.ends[A], world.is_away = 3, True
    with caplog.at_level(logging.WARNING):
        assert query.next_end({}, None) == {}
    assert "trying again" in caplog.text
    world.is_away = False
    assert query.next_end({}, None) != {}


def test_a_run_that_ends_by_itself_does_not_mistake_trouble_for_the_end() -> None:
    world = Unreachable()
    query, _, _ = started(world)
    query.take_target()
    world.is_away = True
    with pytest.raises(BrokerError):
        query.next_end({}, None)


def test_commits_that_cannot_be_read_are_asked_for_again() -> None:
    world = World()
    world.ends[A] = 3
    query, member, _ = started(world)
    known = member.committed

    def fail(
        partitions: Collection[TopicPartition], timeout_ms: float
    ) -> Mapping[TopicPartition, int | None]:
        raise OffsetFetchTimeoutError("g")

    member.committed = fail  # type: ignore[method-assign,assignment]  # for two triggers
    assert query.next_end({}, None) == {}
    member.committed = known  # type: ignore[method-assign]  # and back
    assert query.next_end({}, None)["t"]["0"]["to"] == 3


def test_too_few_records_wait_for_more_or_for_the_delay() -> None:
    world = World()
    query, _, clock = started(world, replace(OPTIONS, min_offsets_per_trigger=5, max_trigger_delay_ms=60_000))
    world.ends[A] = 4
    assert query.next_end({}, None) == {}
    clock.now = 61
    assert query.next_end({}, None) != {}


def test_a_batch_of_more_than_half_the_poll_interval_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.ends[A] = 4
    query, _, clock = started(world)
    end = query.next_end({}, None)
    clock.now = 149
    world.ends[A] = 5
    end = query.next_end(end, None)
    assert "a batch took" not in caplog.text
    clock.now += 151
    query.next_end(end, None)
    assert "a batch took 151.0 s; group 'g' waits 300.0 s" in caplog.text


def test_where_nothing_is_committed_the_options_say_where_to_start() -> None:
    places: list[tuple[Place, int]] = [(Latest(), 7), (FromGroup(), 7), (AtOffsets({A: 3, B: -2, C: -1}), 3)]
    for starting, expected in places:
        world = World()
        world.ends[A] = 7
        query, _, _ = started(world, replace(OPTIONS, starting=starting))
        query.next_end({}, None)
        assert world.offsets[A] == expected


def test_json_must_name_what_the_group_gives() -> None:
    query, _, _ = started(World(), replace(OPTIONS, starting=AtOffsets({A: 3})))
    with pytest.raises(OptionError, match="exactly the partitions"):
        query.next_end({}, None)


def test_a_reset_of_the_group_does_not_move_a_query_with_a_checkpoint(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.ends[A], world.offsets = 9, {A: 1, B: 0, C: 0}
    query, _, _ = started(world)
    start = {"t": {"0": {"from": 4, "to": 8, "epoch": 1}}}
    assert query.next_end(start, None)["t"]["0"] == {"from": 8, "to": 9, "epoch": 1}
    assert "has committed 1 for t-0" in caplog.text
    assert world.offsets[A] == 8


def test_a_stop_commits_what_is_durable_leaves_and_survives_a_refusal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.ends[A] = 4
    query, member, _ = started(world)
    planned = query.next_end({}, None)
    query.stop(lambda end: end == planned)
    assert world.offsets[A] == 4
    assert world.given == {}
    world.ends[A] = 6
    query, member, _ = started(world, replace(OPTIONS, fail_on_fenced=True))
    query.next_end({}, None)
    world.expel(member.name)
    query.stop(lambda _: True)
    assert "the last batch was not committed" in caplog.text
    assert world.offsets[A] == 4
