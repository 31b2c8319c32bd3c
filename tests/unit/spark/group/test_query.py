"""One run of a query in its group, with a member and logs that do as they are told."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.property.spark.group_world import OPTIONS, PARTITIONS, World, WorldMember

from kohort.client.errors import BrokerError, OffsetFetchTimeoutError
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.errors import OptionError, TopicMadeAgainError
from kohort.spark.group.checkpoint import Checkpoint, NoNotes, Notes
from kohort.spark.group.offsets import GroupOffsetJson
from kohort.spark.group.plan import NOT_ASSIGNED, GroupAssignment
from kohort.spark.group.query import GroupQuery, QueryInputs
from kohort.spark.member import NotJoinedError
from kohort.spark.offsets import AtOffsets, FromGroup, Latest, Offsets, OffsetsSpec
from kohort.spark.options import SourceOptions

A, B, C = PARTITIONS
FIRST, SECOND = (
    "AAAAAAAAAAAAAAAAAAAAAQ",
    "AAAAAAAAAAAAAAAAAAAAAg",
)  # the ids of the topic, one after the other
CARELESS = replace(OPTIONS, fail_on_data_loss=False)


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

    def poll(self, timeout_ms: float) -> GroupAssignment:
        self.waited.append(timeout_ms)
        return NOT_ASSIGNED if self.is_held_up else super().poll(timeout_ms)


class Unreachable(World):
    """Logs that cannot be asked for a while."""

    is_away = False

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        if self.is_away:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "list offsets")
        return super().log_ends(partitions)

    def ids_of(self, topics: Collection[str]) -> dict[TopicName, bytes]:
        if self.is_away:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, "metadata")
        return super().ids_of(topics)


def started(
    world: World, options: SourceOptions = OPTIONS, notes: Notes | None = None
) -> tuple[GroupQuery, Waiting, Clock]:
    """A new run, and none beside it: those before are dead."""
    world.expel_all()
    member, clock = Waiting(world), Clock()
    given = QueryInputs(member, world, world.log_ends, notes or NoNotes(), clock)
    return GroupQuery(options, given), member, clock


def test_a_group_that_does_not_settle_is_asked_again_with_the_next_trigger() -> None:
    world = World()
    world.ends[A] = 3
    query, member, _ = started(world)
    member.is_held_up = True
    assert query.next_end({}, None) == {}
    member.is_held_up = False
    end = query.next_end({}, None)
    assert end["t"]["0"] == {"from": 0, "to": 3, "epoch": 1, "id": FIRST}
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


class Counting(World):
    """Notes what it is asked, and what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        self.asked.append("ends")
        return super().log_ends(partitions)

    def ids_of(self, topics: Collection[str]) -> dict[TopicName, bytes]:
        self.asked.append("ids")
        return super().ids_of(topics)

    def ids_and_ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicName, bytes], Offsets | None]:
        self.asked.append("both")
        return World.ids_of(self, {where.topic for where in partitions}), World.log_ends(self, partitions)


def test_a_trigger_without_a_rebalance_asks_for_ids_and_ends_at_once() -> None:
    world = Counting()
    world.ends[A] = 3
    query, _, _ = started(world)
    end = query.next_end({}, None)
    world.asked.clear()
    world.ends[A] = 5
    assert query.next_end(end, None)["t"]["0"]["to"] == 5
    assert world.offsets[A] == 3
    assert world.asked == ["both"]


def test_ends_that_were_seen_before_a_rebalance_are_asked_for_again() -> None:
    """Somebody else may have read on and committed meanwhile: that is no loss."""
    world = Counting()
    world.ends[A] = 3
    query, member, _ = started(world)
    end = query.next_end({}, None)
    poll = member.poll

    def in_another_generation(timeout_ms: float) -> GroupAssignment:
        world.ends[A] = world.offsets[A] = 9
        return poll(timeout_ms)._replace(generation=7)

    member.poll = in_another_generation  # type: ignore[method-assign]  # once
    assert query.next_end(end, None) == end, "all of it was read by somebody"
    assert query.report()[A.topic][str(A.partition)] == 9


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
    places: list[tuple[OffsetsSpec, int]] = [
        (Latest(), 7),
        (FromGroup(), 7),
        (AtOffsets({A: 3, B: -2, C: -1}), 3),
    ]
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


# --- a group that was reset -------------------------------------------------------------------


def test_a_query_that_does_not_know_its_checkpoint_cannot_tell_a_reset_and_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.ends[A], world.offsets = 9, {A: 1, B: 0, C: 0}
    query, _, _ = started(world)
    start: GroupOffsetJson = {"t": {"0": {"from": 4, "to": 8, "epoch": 1}}}
    assert query.next_end(start, None)["t"]["0"] == {"from": 8, "to": 9, "epoch": 1, "id": FIRST}
    assert "less than this checkpoint has processed, t-0 only 1" in caplog.text
    assert '"kohort.checkpoint"' in caplog.text
    assert world.offsets[A] == 8


def read_up_to(world: World, end: int, checkpoint: Checkpoint) -> GroupOffsetJson:
    """A run that reads so much of A, commits it and stops; where its checkpoint stands then."""
    world.ends[A] = end
    query, _, _ = started(world, notes=checkpoint)
    start = query.next_end({}, None)
    query.stop(lambda one: one == start)
    assert world.offsets[A] == end
    return start


def test_a_query_follows_a_reset_of_its_group_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world, checkpoint = World(), Checkpoint(tmp_path)
    start = read_up_to(world, 8, checkpoint)
    world.offsets[A] = 5  # in the middle of the last batch
    query, _, _ = started(world, notes=checkpoint)
    end = query.next_end(start, None)
    assert end["t"]["0"] == {"from": 5, "to": 8, "epoch": 2, "id": FIRST}
    assert "group 'g' was set back, t-0 to 5: reading again from there" in caplog.text
    query.next_end(end, None)
    assert world.offsets[A] == 8
    world.offsets[A] = 6
    again, _, _ = started(world, notes=checkpoint)
    assert again.next_end(end, None)["t"]["0"]["from"] == 6, "as often as it is reset"


def test_a_commit_that_never_came_is_no_reset(tmp_path: Path) -> None:
    world, checkpoint = World(), Checkpoint(tmp_path)
    start = read_up_to(world, 8, checkpoint)
    world.ends[A] = 12
    query, _, _ = started(world, notes=checkpoint)
    last = query.next_end(start, None)  # killed after this batch, before its commit
    restarted, _, _ = started(world, notes=checkpoint)
    assert restarted.next_end(last, None) == last
    assert world.offsets[A] == 12


def test_a_reset_is_followed_though_the_trigger_that_noticed_it_failed(tmp_path: Path) -> None:
    world, checkpoint = Unreachable(), Checkpoint(tmp_path)
    start = read_up_to(world, 8, checkpoint)
    world.offsets[A], world.is_away = 5, True
    query, member, _ = started(world, notes=checkpoint)
    assert query.next_end(start, None) == start
    world.is_away = False
    assert query.next_end(start, None)["t"]["0"]["from"] == 5
    world.expel(member.name)
    assert query.next_end(start, None)["t"]["0"]["from"] == 5, "nor does a rebalance change it"


# --- a topic that was deleted and made again --------------------------------------------------


@pytest.mark.parametrize("ends", [0, 2, 8, 20], ids=["empty", "shorter", "as long", "longer"])
def test_a_topic_that_was_made_again_while_the_query_was_away(
    ends: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    start = read_up_to(world, 8, Checkpoint(Path("nowhere")))
    world.make_topic_again(ends=ends)
    strict, _, _ = started(world)
    with pytest.raises(TopicMadeAgainError, match=r"t was deleted and made again.*failOnDataLoss"):
        strict.next_end(start, None)
    assert world.offsets == {}, "nothing is committed to the new one"
    careless, _, _ = started(world, CARELESS)
    end = careless.next_end(start, None)
    assert end["t"]["0"] == {"from": 0, "to": ends, "epoch": 3, "id": SECOND}
    assert "made again" in caplog.text
    strict_again, _, _ = started(world)
    assert strict_again.next_end(end, None) == end, "once it has begun there, all is well"


def test_a_checkpoint_without_ids_is_taken_for_the_topic_there_is() -> None:
    world = World()
    start = read_up_to(world, 8, Checkpoint(Path("nowhere")))
    del start["t"]["0"]["id"]
    query, _, _ = started(world, CARELESS)
    world.ends[A] = 9
    assert query.next_end(start, None)["t"]["0"] == {"from": 8, "to": 9, "epoch": 2, "id": FIRST}
    query, _, _ = started(world, CARELESS)
    world.ends[A] = 8
    assert query.next_end(start, None) == start
    world.make_topic_again(ends=20)
    assert query.next_end(start, None)["t"]["0"] == {"from": 0, "to": 20, "epoch": 3, "id": SECOND}


def test_what_was_read_of_a_topic_is_not_committed_to_the_one_made_after_it() -> None:
    world = World()
    world.ends[A] = 8
    query, _, _ = started(world)
    end = query.next_end({}, None)
    world.make_topic_again(ends=20)
    with pytest.raises(TopicMadeAgainError):
        query.next_end(end, None)
    assert world.offsets == {}


def test_trouble_right_after_a_topic_was_made_again_does_not_bring_the_old_place_back() -> None:
    world = Unreachable()
    world.ends[A] = 8
    query, _, _ = started(world, CARELESS)
    end = query.next_end({}, None)
    query.next_end(end, None)
    world.make_topic_again(ends=20)
    world.is_away = True
    assert query.next_end(end, None) == end
    world.is_away = False
    assert query.next_end(end, None)["t"]["0"] == {"from": 0, "to": 20, "epoch": 1, "id": SECOND}


def test_brokers_without_ids_are_read_as_ever() -> None:
    world = World()
    world.topic_id, world.ends[A] = bytes(16), 8
    query, _, _ = started(world)
    end = query.next_end({}, None)
    assert end["t"]["0"] == {"from": 0, "to": 8, "epoch": 1}
    assert query.next_end(end, None) == end


# --- the end ----------------------------------------------------------------------------------


def test_a_query_comes_to_rest_when_it_could_look_at_its_topics_and_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Unreachable()
    world.ends[A] = 4
    query, _, _ = started(world)
    end = query.next_end({}, None)
    world.is_away = True
    assert not query.come_to_rest(end)
    assert "the last batch is not committed" in caplog.text
    world.is_away = False
    assert query.come_to_rest(end)
    assert world.offsets[A] == 4


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
