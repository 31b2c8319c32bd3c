"""How long offsets are kept, and what a log may bring (offsets-and-log 6, 7, 17)."""

import pytest
from tests.scenario.groups.story import emptied, group_records, keep_alive, offset_records, stable, state_of

from kohort.groups.commands import SweepOffsets, TopicDeleted
from kohort.groups.events import OffsetsDeleted
from kohort.groups.load import LoadFailedError
from kohort.groups.offsets import retention
from kohort.groups.offsets.apply import put_transactional_offset
from kohort.groups.offsets.state import TransactionalOffset
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Instant, Partition, ProducerId, TopicName
from kohort.records.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import decode_commit, encode_key, encode_value
from kohort.records.record import Record
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

RETENTION = 3_600_000
SWEPT_BY_HAND = GroupSettings(
    offsets_retention_ms=RETENTION, offsets_retention_check_interval_ms=1_000_000_000_000
)
MINUTE = 60_000
SWEPT_EVERY_MINUTE = GroupSettings(offsets_retention_ms=RETENTION, offsets_retention_check_interval_ms=MINUTE)
T0, OLD0 = ("t", 0), ("old", 0)
OFFSET_KEY = encode_key(OffsetCommitKey("g", "t", 0))
PRODUCER = ProducerId(9)


def swept(scenario: Scenario) -> Scenario:
    scenario.order(SweepOffsets())
    return scenario


def test_an_emptied_group_keeps_its_offsets_for_the_retention_and_goes_with_them() -> None:
    """Offsets scenario 19. Given a classic group emptied at T, commits older than T: nothing expires before
    T + retention; then offsets and group disappear in one sweep."""
    scenario = stable("a", settings=SWEPT_BY_HAND)
    scenario.commit("a", {("t", 0): 1, ("u", 0): 2})
    keep_alive(scenario, "a", millis=RETENTION // 2)
    scenario.leave("a")
    scenario.sleep(RETENTION - 1)
    assert swept(scenario).committed("t", 0) == 1
    assert state_of(scenario) == "Empty"
    scenario.sleep(1)
    assert swept(scenario).committed("t", 0) == -1
    assert not scenario.exists
    assert [value for _, _, value in offset_records(scenario)][-2:] == [None, None]
    assert group_records(scenario)[-1] is None
    scenario.restart()
    assert not scenario.exists
    assert scenario.committed("u", 0) == -1


def test_a_simple_group_goes_with_its_last_offset() -> None:
    """Offsets scenario 19. A simple group: commit timestamp; it gets a tombstone too, though it never had a
    record (offsets-and-log 6)."""
    scenario = Scenario(SWEPT_BY_HAND)
    scenario.commit(None, {("t", 0): 1})
    scenario.sleep(1_000)
    scenario.commit(None, {("t", 1): 1})
    scenario.sleep(RETENTION - 1_000)
    assert (swept(scenario).committed("t", 0), scenario.committed("t", 1)) == (-1, 1)
    assert scenario.exists
    scenario.sleep(1_000)
    assert not swept(scenario).exists
    assert group_records(scenario) == [None]


def test_an_empty_group_without_offsets_goes_with_the_next_sweep() -> None:
    """Offsets scenario 19. An Empty group without offsets lives at most one check interval
    (offsets-and-log 6)."""
    scenario = emptied("a")
    scenario.join_once("b", session_timeout=1_800_000)  # pending ids included (classic-groups 8.5)
    scenario.sleep(600_000)
    assert not scenario.exists
    assert group_records(scenario)[-1] is None


def test_a_group_that_still_has_members_does_not_go() -> None:
    """Offsets scenario 19. Only Empty groups get a tombstone (offsets-and-log 6)."""
    scenario = stable("a", settings=SWEPT_BY_HAND)
    keep_alive(scenario, "a", millis=2 * RETENTION)
    assert state_of(swept(scenario)) == "Stable"


def test_a_stable_group_forgets_topics_it_does_not_read_any_more() -> None:
    """Offsets scenario 21. Given a Stable consumer group no longer subscribed to ``old`` → its offsets expire
    after retention since the commit; subscribed topics never."""
    scenario = stable("a", settings=SWEPT_BY_HAND, topics=["t"])
    scenario.commit("a", {("old", 0): 1, ("t", 0): 2})
    keep_alive(scenario, "a", millis=RETENTION - 1)
    assert swept(scenario).committed("old", 0) == 1
    keep_alive(scenario, "a", millis=1)
    assert (swept(scenario).committed("old", 0), scenario.committed("t", 0)) == (-1, 2)
    assert state_of(scenario) == "Stable"


@pytest.mark.parametrize("case", ["unreadable", "connect", "preparing", "completing"])
def test_offsets_are_safe_while_nobody_can_tell_who_reads_them(case: str) -> None:
    """Offsets scenario 21. Never: subscription unparsable, another type, a rebalance (offsets-and-log 6)."""
    scenario = stable(
        "a",
        "b",
        settings=SWEPT_BY_HAND,
        protocols=[("range", b"\xff")] if case == "unreadable" else ["range"],
        protocol_type="connect" if case == "connect" else "consumer",
        session_timeout=1_800_000,
        rebalance_timeout=1_800_000,
    )
    scenario.commit("a", {("old", 0): 1})
    keep_alive(scenario, "a", "b", millis=RETENTION, every=900_000)
    if case in ("preparing", "completing"):
        scenario.join("a")
    if case == "completing":
        scenario.join("b")
    assert swept(scenario).committed("old", 0) == 1


def test_an_offset_may_have_a_retention_of_its_own() -> None:
    """Offsets scenario 22. Given a commit via v3 with RetentionTimeMs 60000 → value v1 with expire timestamp;
    expires at that time when unsubscribed."""
    scenario = Scenario(SWEPT_BY_HAND)
    scenario.commit(None, {("t", 0): 42}, retention=60_000, version=3, leader_epoch=5)
    committed, expires = (EPOCH + shift for shift in (0, 60_000))
    assert offset_records(scenario) == [
        (
            "t",
            0,
            bytes.fromhex("0001 000000000000002a 0000")
            + committed.to_bytes(8, "big")
            + expires.to_bytes(8, "big"),
        )
    ]
    scenario.sleep(59_999)
    assert swept(scenario).committed("t", 0) == 42
    scenario.sleep(1)
    assert swept(scenario).committed("t", 0) == -1


def test_an_own_retention_can_be_longer_than_everyones() -> None:
    """Offsets scenario 22. An explicit expire timestamp overrides (offsets-and-log 6)."""
    scenario = Scenario(SWEPT_BY_HAND)
    scenario.commit(None, {("t", 0): 42}, retention=3 * RETENTION, version=4)
    scenario.restart()
    scenario.sleep(2 * RETENTION)
    assert swept(scenario).committed("t", 0) == 42
    scenario.sleep(RETENTION)
    assert swept(scenario).committed("t", 0) == -1


def test_an_offset_value_from_the_future_is_not_guessed_at() -> None:
    """Offsets scenario 23. Given a log with key type 99 → loader warns, continues; with a type-1 value
    version 9 → partition refuses to load."""
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay([Record(0, EPOCH, b"\x00\x63\x00\x01g", b"x")])
    assert sum(shard.skipped.values()) == 1
    with pytest.raises(LoadFailedError):
        shard.replay([Record(1, EPOCH, OFFSET_KEY, b"\x00\x09" + bytes(30))])


def marker(kind: int) -> list[Record]:
    """A control record that ends a transaction: 0 aborts, 1 commits."""
    return [Record(15, EPOCH, b"\x00\x00" + kind.to_bytes(2, "big"), bytes(6))]


def with_an_open_transaction(*markers: int, plain_after: bool = False) -> Scenario:
    """Loaded: a plain commit of 5, a transactional one of 8 (log offset 10), perhaps a plain one of 6."""
    scenario = Scenario()
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay([Record(2, EPOCH, OFFSET_KEY, encode_value(OffsetCommitValue(5)))])
    shard.replay([Record(10, EPOCH, OFFSET_KEY, encode_value(OffsetCommitValue(8)))], PRODUCER)
    if plain_after:
        shard.replay([Record(12, EPOCH, OFFSET_KEY, encode_value(OffsetCommitValue(6)))])
    for kind in markers:
        shard.replay(marker(kind), PRODUCER, is_control=True)
    shard.finish_load(scenario.node.clock.now)
    scenario.node.shard = shard
    return scenario


def test_an_offset_in_a_transaction_counts_when_it_commits() -> None:
    """Offsets scenario 13. Given a pending transactional commit, when RequireStable → UNSTABLE_OFFSET_COMMIT;
    without → previous offset; after ABORT → previous; after COMMIT → new."""
    scenario = with_an_open_transaction()
    assert scenario.committed("t", 0) == 5
    [row] = scenario.replies[scenario.fetch(("t", 0), require_stable=True)].rows
    assert (row.error, row.offset, row.leader_epoch, row.metadata) == (
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        -1,
        -1,
        "",
    )
    assert with_an_open_transaction(0).committed("t", 0) == 5
    assert with_an_open_transaction(1).committed("t", 0) == 8


def test_a_later_plain_commit_survives_the_end_of_a_transaction() -> None:
    """Offsets scenario 14. Given txn commit record at log offset 10, plain commit at 12, COMMIT marker at 15
    → plain commit stays."""
    assert with_an_open_transaction(1, plain_after=True).committed("t", 0) == 6


def test_offsets_of_a_deleted_topic_are_forgotten() -> None:
    """Offsets scenario 19. Topic deletion: every stored offset of the topic is tombstoned at once
    (offsets-and-log 6)."""
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1, ("u", 0): 2})
    scenario.commit(None, {("t", 0): 3}, group="h")
    scenario.order(TopicDeleted(TopicName("t")))
    assert (scenario.committed("t", 0), scenario.committed("t", 0, group="h")) == (-1, -1)
    assert scenario.committed("u", 0) == 2
    scenario.restart()
    assert (scenario.committed("t", 0), scenario.committed("u", 0)) == (-1, 2)


def test_a_deleted_topic_is_forgotten_by_every_group() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 1, OLD0: 2})
    scenario.commit(None, {OLD0: 3}, group="h")
    scenario.commit(None, {T0: 4}, group="untouched")
    table = scenario.shard.state.offsets
    for topic in ("old", "t"):
        address = (GroupId("in a transaction"), TopicName(topic), Partition(0))
        put_transactional_offset(table, ProducerId(1), address, TransactionalOffset(0, b""))
    scenario.hold_appends()
    scenario.commit(None, {("old", 5): 6, ("t", 5): 6}, group="on its way")
    scenario.order(TopicDeleted(TopicName("old")))
    scenario.release_appends()
    gone = {
        event.group_id: event.partitions for event in scenario.events if isinstance(event, OffsetsDeleted)
    }
    assert gone == {"g": (OLD0,), "h": (OLD0,), "in a transaction": (OLD0,), "on its way": (("old", 5),)}
    assert scenario.committed("t") == 1
    assert scenario.committed("old", group="h") == -1
    assert len(table.open_offsets) == 1
    assert set(scenario.why(OffsetsDeleted)) == {"topic old was deleted"}


def test_the_end_of_a_topic_without_offsets_is_not_written() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 1})
    written = len(scenario.log)
    scenario.order(TopicDeleted(TopicName("old")))
    assert len(scenario.log) == written


def test_an_open_transaction_keeps_offset_and_group() -> None:
    scenario = Scenario(SWEPT_EVERY_MINUTE)
    scenario.commit(None, {T0: 1})
    address = (scenario.group_id, TopicName("t"), Partition(0))
    table = scenario.shard.state.offsets
    put_transactional_offset(table, ProducerId(1), address, TransactionalOffset(0, b""))
    scenario.sleep(61 * MINUTE)
    assert scenario.committed() == 1


def test_if_the_log_refuses_everything_stays_for_the_next_check() -> None:
    scenario = Scenario(SWEPT_EVERY_MINUTE)
    scenario.commit(None, {T0: 1})
    scenario.fail_next_append(ErrorCode.KAFKA_STORAGE_ERROR)
    scenario.sleep(60 * MINUTE)
    assert scenario.committed() == 1
    assert scenario.group.protocol_type is None
    scenario.sleep(MINUTE)
    assert not scenario.exists


def test_many_groups_are_swept_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(SWEPT_EVERY_MINUTE)
    for number in range(5):
        scenario.commit(None, {T0: 1}, group=f"g{number}")
    scenario.sleep(59 * MINUTE)
    monkeypatch.setattr(retention, "OFFSETS_AT_A_TIME", 4)
    scenario.sleep(MINUTE)
    assert len(scenario.shard.state.groups) == 3  # an offset and a group count for one each
    scenario.admin.delete_groups("g2")  # gone before its turn comes
    scenario.sleep(5)
    assert not scenario.shard.state.groups


@pytest.mark.parametrize("own", [2**63 - 1, 2**63 - 1 - EPOCH, -(2**63), -2, 0])
def test_any_retention_can_be_stored(own: int) -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1}, retention=own, version=2)
    (value,) = [decode_commit(record.value) for record in scenario.log if record.value is not None]
    assert value.expire_timestamp == min(EPOCH + own, 2**63 - 1)
