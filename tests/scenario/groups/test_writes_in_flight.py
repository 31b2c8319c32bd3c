"""What happens between a write and the log's answer: who waits, and what others see (classic-groups 6.4,
7.5, offsets-and-log 1). Operations take effect in the order in which they came."""

import pytest
from tests.scenario.groups.story import (
    SESSION,
    commit_error,
    commit_errors,
    completing,
    emptied,
    group_records,
    offset_records,
    phase_of,
    stable,
    state_of,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import CommitOffsets, CommitRow, SweepOffsets, TopicDeleted
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, TopicName
from kohort.sim.driver import Scenario

NONE = ErrorCode.NONE
RETENTION = 3_600_000
SWEPT_BY_HAND = GroupSettings(
    offsets_retention_ms=RETENTION, offsets_retention_check_interval_ms=1_000_000_000_000
)


@pytest.mark.parametrize("stable_fetch", [False, True])
def test_a_commit_is_answered_and_shown_when_the_log_has_it(stable_fetch: bool) -> None:
    """A response is released only after its records are durable; a fetch shows durable state only."""
    scenario = stable("a")
    scenario.commit("a", {("t", 0): 1})
    scenario.hold_appends()
    request = scenario.commit("a", {("t", 0): 2})
    fetch = scenario.fetch(("t", 0), require_stable=stable_fetch)
    assert scenario.is_parked(request)
    assert scenario.is_parked(fetch)
    scenario.release_appends()
    assert commit_error(scenario, request) is NONE
    assert scenario.replies[fetch].rows[0].offset == 2


def test_a_fetch_waits_for_its_own_group_only() -> None:
    """What another group is about to store does not delay it."""
    scenario = stable("a")
    scenario.commit("a", {("t", 0): 1})
    scenario.hold_appends()
    row = CommitRow(TopicName("t"), Partition(0), 7)
    scenario.send(CommitOffsets(reply_to=scenario.next_reply_to(), group_id=GroupId("h"), rows=(row,)))
    assert scenario.committed("t", 0) == 1


def test_a_stable_fetch_waits_for_earlier_writes() -> None:
    """Reads that must be stable (require_stable) also wait for all earlier pending writes."""
    scenario = stable("a")
    scenario.hold_appends()
    scenario.commit("a", {("t", 0): 2})
    request = scenario.fetch(("t", 0), require_stable=True)
    assert scenario.is_parked(request)
    scenario.commit("a", {("t", 0): 3})
    scenario.release_appends(1)
    assert scenario.replies[request].rows[0].offset == 2
    scenario.release_appends()
    assert scenario.committed("t", 0) == 3


@pytest.mark.parametrize("refusal", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REQUEST_TIMED_OUT])
def test_a_stable_fetch_behind_a_write_that_fails_is_sent_elsewhere(refusal: ErrorCode) -> None:
    """For OffsetFetch the first family of failures becomes NOT_COORDINATOR."""
    scenario = stable("a")
    scenario.hold_appends()
    scenario.commit("a", {("t", 0): 2})
    request = scenario.fetch(("t", 0), require_stable=True)
    scenario.fail_next_append(refusal)
    scenario.release_appends()
    assert (scenario.error(request), scenario.replies[request].rows) == (ErrorCode.NOT_COORDINATOR, ())


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_commit_that_cannot_be_stored_fails_as_a_whole(refusal: ErrorCode, error: ErrorCode) -> None:
    """The mapped error, on each partition of the request; the client sends all of them again."""
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1})
    scenario.fail_next_append(refusal)
    rows = (
        CommitRow(TopicName("t"), Partition(0), 2),
        CommitRow(TopicName("t"), Partition(1), 2, metadata="x" * 4_097),
    )
    request = scenario.send(
        CommitOffsets(reply_to=scenario.next_reply_to(), group_id=GroupId("g"), rows=rows)
    )
    assert commit_errors(scenario, request) == [error, error]
    assert scenario.committed("t", 0) == 1


def test_a_commit_that_is_too_large_for_the_log_is_refused_before_it_is_stored() -> None:
    """UNKNOWN_SERVER_ERROR for what would have been stored; others keep their own error. No group is made."""
    scenario = Scenario(GroupSettings(max_batch_bytes=1_000))
    metadata = ["x" * 600, "x" * 600, "x" * 4_097]
    rows = tuple(CommitRow(TopicName("t"), Partition(n), 2, metadata=each) for n, each in enumerate(metadata))
    request = scenario.send(
        CommitOffsets(reply_to=scenario.next_reply_to(), group_id=GroupId("g"), rows=rows)
    )
    too_large = ErrorCode.UNKNOWN_SERVER_ERROR
    assert commit_errors(scenario, request) == [too_large, too_large, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert not scenario.exists
    assert not scenario.log


def test_one_bad_partition_does_not_spoil_the_others() -> None:
    """OFFSET_METADATA_TOO_LARGE for that partition only; all of one request in one atomic batch."""
    scenario = Scenario()
    rows = tuple(
        CommitRow(TopicName("t"), Partition(n), n, metadata="x" * (4_096 + (n == 1))) for n in range(3)
    )
    scenario.hold_appends()
    request = scenario.send(
        CommitOffsets(reply_to=scenario.next_reply_to(), group_id=GroupId("g"), rows=rows)
    )
    [append] = scenario.node.unsettled
    assert len(append.records) == 2
    scenario.release_appends()
    assert commit_errors(scenario, request) == [NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE]
    assert [scenario.committed("t", n) for n in range(3)] == [0, -1, 2]


def test_of_a_partition_named_twice_the_last_offset_counts() -> None:
    """Duplicate partitions in one request: all are written, the last wins."""
    scenario = Scenario()
    rows = tuple(CommitRow(TopicName("t"), Partition(0), offset) for offset in (7, 5))
    request = scenario.send(
        CommitOffsets(reply_to=scenario.next_reply_to(), group_id=GroupId("g"), rows=rows)
    )
    assert commit_errors(scenario, request) == [NONE, NONE]
    assert len(offset_records(scenario)) == 2
    assert scenario.committed("t", 0) == 5
    scenario.restart()
    assert scenario.committed("t", 0) == 5


def test_the_offset_itself_is_not_judged() -> None:
    """Negative or beyond the log end is stored."""
    scenario = Scenario()
    scenario.commit(None, {("t", 0): -5, ("t", 1): 2**62})
    assert (scenario.committed("t", 0), scenario.committed("t", 1)) == (-5, 2**62)


def test_a_group_that_only_a_failed_commit_made_is_gone() -> None:
    """What could not be stored never was: no simple group is left behind."""
    scenario = Scenario()
    scenario.fail_next_append(ErrorCode.REQUEST_TIMED_OUT)
    scenario.commit(None, {("t", 0): 1})
    assert scenario.committed("t", 0) == -1
    assert state_of(scenario) in ("", "Empty")


def test_a_deletion_of_offsets_comes_after_the_commit_it_came_after() -> None:
    """A commit on its way to the log is deleted by a deletion that comes later."""
    scenario = emptied("a")
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 1})
    request = scenario.admin.delete_offsets(("t", 0))
    scenario.release_appends()
    assert scenario.error(request) is NONE
    assert scenario.committed("t", 0) == -1
    scenario.restart()
    assert scenario.committed("t", 0) == -1


def test_a_deletion_of_a_group_takes_commits_on_their_way_with_it() -> None:
    """Offset tombstones for all partitions, also for what came just before."""
    scenario = emptied("a")
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 1})
    request = scenario.admin.delete_groups("g")
    scenario.release_appends()
    assert scenario.replies[request].groups == ((GroupId("g"), NONE),)
    assert offset_records(scenario)[-1] == ("t", 0, None)
    assert not scenario.exists
    scenario.restart()
    assert not scenario.exists
    assert scenario.committed("t", 0) == -1


def test_a_deletion_of_a_topic_takes_commits_on_their_way_with_it() -> None:
    """Every stored offset of the topic is tombstoned, also what came just before."""
    scenario = Scenario()
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 1})
    scenario.order(TopicDeleted(TopicName("t")))
    scenario.release_appends()
    assert scenario.committed("t", 0) == -1
    scenario.restart()
    assert scenario.committed("t", 0) == -1


def test_a_sweep_does_not_delete_what_has_just_been_committed_again() -> None:
    """An old offset has expired, but a newer one is on its way to the log: it must survive."""
    scenario = Scenario(SWEPT_BY_HAND)
    scenario.commit(None, {("t", 0): 1})
    scenario.sleep(RETENTION)
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 2})
    scenario.order(SweepOffsets())
    scenario.release_appends()
    assert scenario.committed("t", 0) == 2
    scenario.restart()
    assert scenario.committed("t", 0) == 2


def test_a_join_that_comes_after_a_deletion_meets_a_new_group() -> None:
    """The group is deleted as far as later requests are concerned."""
    scenario = emptied("a")
    scenario.hold_appends()
    scenario.admin.delete_groups("g")
    waiting = scenario.join("b")
    scenario.release_appends()
    scenario.sleep(3_000)
    assert scenario.replies[waiting].error is NONE
    assert scenario.replies[waiting].generation == 1


def test_a_commit_that_comes_after_a_deletion_survives_it() -> None:
    """The log has the deletion first, then the offset of a new, simple group."""
    scenario = emptied("a")
    scenario.hold_appends()
    scenario.admin.delete_groups("g")
    request = scenario.commit(None, {("t", 0): 5})
    scenario.release_appends()
    assert commit_error(scenario, request) is NONE
    assert scenario.committed("t", 0) == 5
    scenario.restart()
    assert scenario.committed("t", 0) == 5
    assert scenario.group.protocol_type is None


def test_an_empty_generation_that_cannot_be_stored_is_tried_again() -> None:
    """The shard is loaded from its log: the member is back, its session starts anew, and ends again."""
    scenario = stable("a")
    scenario.fail_next_append(ErrorCode.REQUEST_TIMED_OUT)
    scenario.sleep(SESSION)
    assert phase_of(scenario) is Phase.STABLE
    scenario.sleep(SESSION)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2


def test_an_id_is_handed_out_without_waiting_for_the_log() -> None:
    """The 79 answer does not wait (classic-groups 7.2); nor does a heartbeat, or a follower's repeated
    join."""
    scenario = stable("a", "b")
    scenario.hold_appends()
    scenario.commit("a", {("t", 0): 1})
    assert scenario.error(scenario.join_once("c")) is ErrorCode.MEMBER_ID_REQUIRED
    assert scenario.heartbeat("b") is NONE
    assert not scenario.is_parked(scenario.join("b"))


def test_members_that_sync_while_the_assignment_is_being_stored_get_it_too() -> None:
    """The group is Stable for everybody who decides next; syncs wait until the assignment is stored."""
    scenario = completing("a", "b")
    scenario.hold_appends()
    of_a = scenario.sync("a")
    assert phase_of(scenario) is Phase.STABLE
    of_b = scenario.sync("b")
    assert scenario.is_parked(of_b)
    scenario.release_appends()
    assert scenario.replies[of_a].assignment == b"for-a"
    assert scenario.replies[of_b].assignment == b"for-b"


def test_a_leader_that_syncs_twice_leaves_members_and_log_agreeing() -> None:
    """The first assignment counts for both: what members were told is what a coordinator that takes over will
    find (the durable events alone rebuild the durable part of the group)."""
    scenario = completing("a", "b")
    scenario.hold_appends()
    scenario.sync("a", {"a": b"1", "b": b"1"})
    newer = scenario.sync("a", {"a": b"2", "b": b"2"})
    of_b = scenario.sync("b")
    scenario.release_appends()
    told = {scenario.replies[newer].assignment, scenario.replies[of_b].assignment}
    newest = group_records(scenario)[-1]
    assert newest is not None
    assert {each.assignment for each in newest.members} == told == {b"1"}


def test_a_failed_write_takes_those_behind_it_with_it() -> None:
    """The second was decided on a past that is not stored: both come again, and nobody is told otherwise."""
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 0})
    scenario.hold_appends()
    requests = [scenario.commit(None, {("t", 0): 1}), scenario.commit(None, {("t", 1): 2})]
    reads = [scenario.fetch(("t", 0)), scenario.admin.describe(), scenario.admin.list_groups()]
    scenario.fail_next_append(ErrorCode.REQUEST_TIMED_OUT)
    scenario.release_appends()
    assert [commit_error(scenario, each) for each in requests] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert [scenario.error(each) for each in reads] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ]
    assert (scenario.committed("t", 0), scenario.committed("t", 1)) == (0, -1)


def test_a_description_waits_for_the_tombstones_that_it_has_seen() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1}, group="simple")
    scenario.hold_appends()
    request = scenario.admin.delete_groups("simple")
    described = scenario.admin.describe("simple")
    assert scenario.is_parked(request)
    assert scenario.is_parked(described)  # it has seen what may yet not happen
    scenario.release_appends()
    assert scenario.replies[described].error is ErrorCode.GROUP_ID_NOT_FOUND
    assert scenario.committed(group="simple") == -1


def test_a_stable_fetch_of_another_group_does_not_mind() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 7}, group="other")
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 2})
    first = scenario.fetch(("t", 0), group="other", require_stable=True)
    scenario.commit(None, {("t", 0): 3})
    second = scenario.fetch(("t", 0), group="other", require_stable=True)
    scenario.fail_next_append(ErrorCode.REQUEST_TIMED_OUT)
    scenario.release_appends()
    assert [scenario.replies[each].rows[0].offset for each in (first, second)] == [7, 7]


def test_an_assignment_that_is_stored_when_the_group_is_gone_changes_nothing() -> None:
    scenario = completing("a")
    scenario.hold_appends()
    sync = scenario.sync("a")
    scenario.leave("a")
    scenario.admin.delete_groups("g")
    scenario.release_appends()
    assert scenario.replies[sync].assignment == b"for-a"
    assert not scenario.exists


def test_an_assignment_that_is_stored_when_the_group_was_made_again_changes_nothing() -> None:
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=0))
    scenario.hold_appends()
    scenario.join("a")
    scenario.sync("a")
    scenario.leave("a")
    scenario.admin.delete_groups("g")
    scenario.join("b")
    assert (scenario.phase, scenario.group.generation) == (Phase.COMPLETING_REBALANCE, 1)
    scenario.release_appends()
    assert (scenario.phase, scenario.members) == (Phase.COMPLETING_REBALANCE, ["b"])
