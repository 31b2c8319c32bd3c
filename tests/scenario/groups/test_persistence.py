"""What the log has of a group, and what comes back from it (classic-groups 7, 12)."""

from struct import pack

import pytest
from tests.scenario.groups.story import (
    ON_T,
    REBALANCE,
    SESSION,
    commit_error,
    completing,
    emptied,
    group_records,
    joined,
    last_group_record,
    phase_of,
    refused_join,
    refused_sync,
    sleep_until,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.load import LoadFailedError
from kohort.groups.replies import DescribeReply, FetchReply, ListReply
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Instant
from kohort.records.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import encode_key, encode_value
from kohort.records.record import Record
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

KEY = encode_key(GroupMetadataKey("g"))
MOVED = ErrorCode.NOT_COORDINATOR


def text(value: str) -> bytes:
    return pack(">h", len(value.encode())) + value.encode()


def loaded(*records: tuple[bytes | None, bytes | None]) -> Scenario:
    """A shard that has just read these records."""
    scenario = Scenario()
    scenario.node.log += [Record(n, EPOCH, key, value) for n, (key, value) in enumerate(records)]
    scenario.restart()
    return scenario


def test_a_generation_is_stored_once_when_it_is_stable() -> None:
    """Scenario 109. Given a Stable generation, then exactly one v3 group record with all assignments exists
    for it, and none for the start of the rebalance."""
    scenario = completing("a", "b")
    begun = scenario.now
    assert [each for each in group_records(scenario) if each is None or each.members] == []
    scenario.sleep(2_000)
    scenario.sync_all()
    [stored] = [record for record in scenario.log if record.key == KEY][-1:]
    assert stored.value is not None
    assert stored.value[:2] == b"\x00\x03"
    record = last_group_record(scenario)
    assert (record.protocol_type, record.generation, record.protocol) == ("consumer", 1, "range")
    assert record.leader == scenario.id_of("a")
    assert record.current_state_timestamp == EPOCH + begun  # of CompletingRebalance (classic-groups 7.2)
    assert {(each.member_id, each.subscription, each.assignment) for each in record.members} == {
        (scenario.id_of("a"), ON_T, b"for-a"),
        (scenario.id_of("b"), ON_T, b"for-b"),
    }
    assert {(each.session_timeout, each.rebalance_timeout) for each in record.members} == {
        (SESSION, REBALANCE)
    }
    before = len(scenario.log)
    scenario.join("a")
    scenario.heartbeat("b")
    scenario.join_once("c")
    scenario.join("b")
    assert len(scenario.log) == before  # a rebalance, a heartbeat, an id, the end of the join phase
    scenario.leave("c")
    scenario.sync_all()
    assert [each.generation for each in group_records(scenario) if each is not None and each.members] == [
        1,
        2,
    ]


def test_a_version_0_record_has_one_timeout_for_both() -> None:
    """Scenario 111. Given a v0 record, then rebalance timeout equals session timeout after load."""
    member = text("m-1") + text("c") + text("/127.0.0.1") + pack(">i", 45_000)
    member += pack(">i", len(ON_T)) + ON_T + pack(">i", 1) + b"x"
    value = pack(">h", 0) + text("consumer") + pack(">i", 4) + text("range") + text("m-1")
    scenario = loaded((KEY, value + pack(">i", 1) + member))
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.generation == 4
    assert scenario.group.rebalance_timeout_ms == 45_000
    scenario.join("new", version=3, rebalance_timeout=1_000)
    scenario.member("m").member_id = next(iter(scenario.group.members))
    scenario.sleep(44_000)
    assert scenario.heartbeat("m", generation=4) is ErrorCode.REBALANCE_IN_PROGRESS
    scenario.sleep(999)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE


@pytest.mark.parametrize("moment", ["preparing", "completing"])
def test_a_coordinator_that_takes_over_shows_the_last_stored_generation(moment: str) -> None:
    """Scenario 112. Given failover during PreparingRebalance, then the new coordinator shows the previous
    generation Stable and heartbeats of that generation get 0. (During CompletingRebalance alike,
    classic-groups 7.2.)"""
    scenario = stable("a", "b")
    scenario.join("a")
    if moment == "completing":
        scenario.join("b")
    scenario.restart()
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.generation == 1
    assert set(scenario.members) == {"a", "b"}
    assert scenario.leader == "a"
    assert scenario.heartbeat("a", generation=1) is ErrorCode.NONE
    assert scenario.heartbeat("b", generation=1) is ErrorCode.NONE
    synced = scenario.sync("b", generation=1)
    assert scenario.replies[synced].assignment == b"for-b"


def test_a_group_that_never_was_stable_comes_back_empty_or_not_at_all() -> None:
    """Scenario 112. Empty, or absent, if the group never reached Stable (classic-groups 7.2)."""
    scenario = completing("a", "b")
    scenario.restart()
    assert not scenario.exists or phase_of(scenario) is Phase.EMPTY
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_emptied_group_comes_back_empty() -> None:
    """Scenario 112. No members → Empty, with its generation and type (classic-groups 7.4)."""
    scenario = emptied("a")
    scenario.restart()
    assert phase_of(scenario) is Phase.EMPTY
    assert (scenario.group.generation, scenario.group.protocol_type) == (2, "consumer")
    request = scenario.join("b")
    scenario.sleep(3_000)
    assert scenario.replies[request].generation == 3


def test_after_a_load_every_member_has_a_whole_session() -> None:
    """Scenario 113. Given a load, then each member survives a full session timeout from load completion
    without heartbeats, not less."""
    scenario = Scenario.stable(a=10_000, b=25_000)
    scenario.sleep(9_000)
    scenario.restart()
    start = scenario.now
    sleep_until(scenario, start + 9_999)
    assert phase_of(scenario) is Phase.STABLE
    sleep_until(scenario, start + 10_000)
    assert scenario.members == ["b"]
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    sleep_until(scenario, start + 24_999)
    assert scenario.members == ["b"]
    sleep_until(scenario, start + 25_000)
    assert phase_of(scenario) is Phase.EMPTY


def test_after_a_load_nobody_has_to_sync() -> None:
    """Scenario 113. The pending-sync set is not restored, so there is no sync timer (classic-groups 7.4)."""
    scenario = completing("a", "b", session_timeout=600_000)
    scenario.sync("a")
    scenario.restart()
    scenario.sleep(2 * REBALANCE)
    assert phase_of(scenario) is Phase.STABLE


def test_a_loaded_member_with_several_protocols_looks_changed() -> None:
    """Scenario 114. Given a loaded follower with two protocols rejoins, then a rebalance."""
    scenario = stable("a", "b", protocols=["range", "roundrobin"])
    scenario.restart()
    request = scenario.join("b")
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_a_loaded_member_with_one_protocol_does_not() -> None:
    """Scenario 114. One protocol is stored in full: the follower's rejoin changes nothing."""
    scenario = stable("a", "b")
    scenario.restart()
    request = scenario.join("b")
    assert scenario.replies[request] == joined(scenario, "b", leader="a", generation=1)


def test_everyone_who_waits_is_sent_to_the_new_coordinator() -> None:
    """Scenario 115. Given parked joins at unload, then 16 with own member id; given parked syncs, 16."""
    scenario = stable("a", "b", "c")
    requests = {name: scenario.join(name) for name in "ab"}
    scenario.unload()
    for name, request in requests.items():
        assert scenario.replies[request] == refused_join(ErrorCode.NOT_COORDINATOR, scenario.id_of(name))
    waiting = completing("a", "b", "c")
    syncs = [waiting.sync("b"), waiting.sync("c")]
    waiting.unload()
    assert [waiting.replies[sync] for sync in syncs] == [refused_sync(ErrorCode.NOT_COORDINATOR)] * 2


def test_everyone_who_waits_for_the_log_is_sent_to_the_new_coordinator() -> None:
    """Scenario 115. Outstanding appends fail with 16 (classic-groups 7.4); a late report of the log changes
    nothing."""
    scenario = Scenario()
    scenario.join("a")
    scenario.join("s", instance="i1")
    scenario.settle()
    scenario.hold_appends()
    restarted = scenario.join_once("s", member_id="")
    committed = scenario.commit("a", {("t", 0): 1})
    left = scenario.leave("a", "s")
    scenario.unload()
    assert scenario.error(restarted) is ErrorCode.NOT_COORDINATOR
    assert commit_error(scenario, committed) is ErrorCode.NOT_COORDINATOR
    assert not scenario.is_parked(left)
    answered = len(scenario.sent)
    scenario.release_appends()
    scenario.sleep(1_000_000)
    assert len(scenario.sent) == answered


def test_after_an_unload_no_timer_fires() -> None:
    """Scenario 115. Unload cancels all timers of the partition (classic-groups 7.4)."""
    scenario = stable("a", "b")
    scenario.join("a")
    scenario.unload()
    happened = len(scenario.events)
    scenario.sleep(1_000_000)
    assert len(scenario.events) == happened
    assert scenario.shard.next_deadline() is None


@pytest.mark.parametrize("key", [b"\x00\x63" + text("g"), b"\x00\x11" + text("g"), None, b"", b"\x00"])
def test_records_of_other_kinds_are_skipped(key: bytes | None) -> None:
    """Scenario 116. Given a record with key version 99 in the log, then loading skips it (null and short
    keys alike, classic-groups 7.4)."""
    offset = encode_value(OffsetCommitValue(7))
    scenario = loaded((key, b"whatever"), (encode_key(OffsetCommitKey("g", "t", 0)), offset))
    assert scenario.committed("t", 0) == 7


@pytest.mark.parametrize("cut", [1, 3, 10, 40])
def test_a_value_that_is_cut_off_fails_the_load(cut: int) -> None:
    """Scenario 116. Given a truncated value, the partition answers 16: loading raises, and the shell serves
    it as not owned."""
    whole = stable("a")
    value = whole.log[-1].value
    assert value is not None
    shard = Shard(GroupSettings(), Instant(0))
    with pytest.raises(LoadFailedError):
        _load(shard, Record(0, EPOCH, KEY, value[:-cut]))


def _load(shard: Shard, *records: Record) -> None:
    shard.replay(records)
    shard.finish_load(Scenario().node.clock.now)


def test_offsets_alone_make_a_simple_group() -> None:
    """Scenario 117. Given only offset records for a group, then it loads as a simple Empty group with type
    ``""``."""
    scenario = loaded((encode_key(OffsetCommitKey("g", "t", 0)), encode_value(OffsetCommitValue(7))))
    [listed] = scenario.replies[scenario.admin.list_groups()].groups
    assert listed == (GroupId("g"), "", "Empty", "classic")
    assert scenario.group.generation == 0
    assert scenario.replies[scenario.admin.describe()].protocol_type == ""


def test_the_last_record_of_a_group_counts() -> None:
    """Scenario 112. Replay in order, last record per key wins; a tombstone removes the group
    (classic-groups 7.4)."""
    first, second = emptied("a"), stable("b")
    scenario = loaded((KEY, second.log[-1].value), (KEY, first.log[-1].value))
    assert phase_of(scenario) is Phase.EMPTY
    gone = loaded((KEY, second.log[-1].value), (KEY, None))
    assert not gone.exists


def test_a_record_without_a_leader_makes_the_first_member_lead() -> None:
    """Scenario 112. Leader null and members exist: first member (classic-groups 7.4)."""
    member = text("m-1") + text("c") + text("/h") + pack(">ii", 30_000, 10_000) + pack(">ii", 0, 0)
    value = pack(">h", 1) + text("consumer") + pack(">i", 4) + text("range") + pack(">h", -1)
    scenario = loaded((KEY, value + pack(">i", 1) + member))
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.leader == "m-1"


def test_everyone_who_waits_for_the_log_is_told() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join("s", instance="s", group="static")
    scenario.sleep(3_000)
    scenario.sync_all("static")
    scenario.hold_appends()
    static = scenario.join("s", member_id="", group="static")
    commit = scenario.commit("a", {("t", 0): 1})
    delete = scenario.admin.delete_offsets(("old", 0))
    stable = scenario.fetch(require_stable=True)
    described, listed = scenario.admin.describe(), scenario.admin.list_groups()
    leave = scenario.leave("a")
    deleted = scenario.admin.delete_groups("g")
    scenario.unload()
    assert scenario.replies[commit].rows[0].error is MOVED
    assert scenario.error(delete) is MOVED
    assert scenario.replies[stable] == FetchReply(error=MOVED)
    assert scenario.replies[described] == DescribeReply(group_id=GroupId("g"), error=MOVED)
    assert scenario.replies[listed] == ListReply(error=MOVED)
    assert scenario.error(leave) is MOVED
    assert scenario.replies[deleted].groups[0].error is MOVED
    assert scenario.error(static) is MOVED


def test_a_sweep_that_was_being_stored_has_nobody_to_tell() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    scenario.hold_appends()
    scenario.sleep(600_000)
    sent = len(scenario.sent)
    scenario.unload()
    assert len(scenario.sent) == sent


def test_a_dead_group_has_no_offsets() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1})
    scenario.unload()
    assert scenario.committed() == -1
    scenario.unload()  # twice is harmless
    assert scenario.is_in(Phase.DEAD)
