"""Committed offsets: what is taken, stored and shown (offsets-and-log 2 to 4, 17)."""

import pytest
from tests.scenario.groups.story import (
    SESSION,
    commit_error,
    commit_errors,
    completing,
    emptied,
    offset_records,
    preparing,
    sleep_until,
    stable,
)

from kohort.groups.replies import DeleteOffsetsReply, FetchedOffset
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, TopicId, TopicName
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
T0, T1 = ("t", 0), ("t", 1)
TOPIC_A, TOPIC_B = TopicId(b"A" * 16), TopicId(b"B" * 16)


def fetched(
    topic: str, partition: int, offset: int = -1, epoch: int = -1, metadata: str = ""
) -> FetchedOffset:
    return FetchedOffset(TopicName(topic), Partition(partition), offset, epoch, metadata, NONE)


def test_a_commit_from_outside_makes_a_simple_group() -> None:
    """Offsets scenario 1. Given no group, when gen -1, then accepted and the group lists as type classic,
    state Empty, protocol type "". (Gen 5: v8 ILLEGAL_GENERATION, v9 GROUP_ID_NOT_FOUND.)"""
    scenario = Scenario()
    for version, error in ((8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)):
        request = scenario.commit(None, {("t", 0): 1}, generation=5, version=version)
        assert commit_error(scenario, request) is error
    assert scenario.replies[scenario.admin.list_groups()].groups == ()
    request = scenario.commit(None, {("t", 0): 1}, version=8)
    assert commit_error(scenario, request) is NONE
    assert scenario.replies[scenario.admin.list_groups()].groups == ((GroupId("g"), "", "Empty", "classic"),)
    assert len(scenario.log) == 1  # no group record is written (offsets-and-log 2.3)


@pytest.mark.parametrize("generation", [0, 2])
def test_a_commit_with_a_generation_to_an_empty_group_is_from_nobody(generation: int) -> None:
    """Offsets scenario 2. Given an Empty classic group, when a commit with gen 0 and a member id arrives,
    then UNKNOWN_MEMBER_ID."""
    scenario = emptied("a")
    request = scenario.commit("a", {("t", 0): 1}, generation=generation)
    assert commit_error(scenario, request) is UNKNOWN
    assert scenario.committed("t", 0) == -1


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("a", 0, ErrorCode.ILLEGAL_GENERATION),
        ("a", 2, ErrorCode.ILLEGAL_GENERATION),
        ("a", -1, ErrorCode.ILLEGAL_GENERATION),  # also when the generation is -1 (offsets-and-log 2.3, 3d)
        ("nobody", 1, UNKNOWN),
        ("nobody", -1, UNKNOWN),
        ("", 1, UNKNOWN),
        ("", -1, UNKNOWN),
        ("pending", 1, UNKNOWN),  # a pending member is not a member
        ("a", 1, NONE),
    ],
)
def test_only_members_of_the_generation_commit_to_a_stable_group(
    member: str, generation: int, error: ErrorCode
) -> None:
    """Offsets scenario 3. Given a Stable classic group, when another gen → ILLEGAL_GENERATION; unknown member
    → UNKNOWN_MEMBER_ID; admin gen -1, member "" → UNKNOWN_MEMBER_ID."""
    scenario = stable("a", "b")
    scenario.join_once("pending")
    member_id = scenario.id_of(member) if member in ("a", "pending") else member
    request = scenario.commit(None, {("t", 0): 9}, member_id=member_id, generation=generation)
    assert commit_error(scenario, request) is error
    assert scenario.committed("t", 0) == (9 if error is NONE else -1)


def test_a_commit_while_the_assignment_is_awaited_is_refused() -> None:
    """Offsets scenario 4. Given CompletingRebalance, when the right member/gen commits →
    REBALANCE_IN_PROGRESS."""
    scenario = completing("a", "b")
    request = scenario.commit("b", {("t", 0): 1, ("t", 1): 1})
    assert commit_errors(scenario, request) == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


def test_a_commit_while_members_join_again_is_taken_and_counts_as_life() -> None:
    """Offsets scenario 5. Given PreparingRebalance, when the right member commits → accepted and its session
    deadline moves."""
    scenario = preparing("a", "b")
    start = scenario.now
    scenario.sleep(7_000)
    assert commit_error(scenario, scenario.commit("b", {("t", 0): 1})) is NONE
    sleep_until(scenario, start + 7_000 + SESSION - 1)
    assert "b" in scenario.members
    sleep_until(scenario, start + 7_000 + SESSION)
    assert "b" not in scenario.members


def test_a_commit_under_anothers_instance_is_fenced() -> None:
    """Offsets scenario 6. Given instance i1 owned by m2, when m1 commits with i1 → FENCED_INSTANCE_ID;
    unknown instance → UNKNOWN_MEMBER_ID."""
    scenario = Scenario()
    scenario.join("m1")
    scenario.join("m2", instance="i1")
    scenario.settle()
    request = scenario.commit("m1", {("t", 0): 1}, instance="i1")
    assert commit_error(scenario, request) is ErrorCode.FENCED_INSTANCE_ID
    request = scenario.commit("m1", {("t", 0): 1}, instance="i2")
    assert commit_error(scenario, request) is UNKNOWN


@pytest.mark.parametrize("unit", ["x", "\u8cbb", "\u00e9"])
def test_metadata_has_a_limit_in_units_of_utf_16(unit: str) -> None:
    """Offsets scenario 7. Given metadata of 4096 / 4097 UTF-16 units in one request, then the first is stored
    and the second gets OFFSET_METADATA_TOO_LARGE.

    Offsets scenario 8. Given metadata of 4096 three-byte characters, then it is accepted (12288 bytes).
    """
    scenario = Scenario()
    fits, too_long = unit * 4_096, unit * 4_097
    assert commit_error(scenario, scenario.commit(None, {("t", 0): 1}, metadata=fits)) is NONE
    refused = scenario.commit(None, {("t", 1): 1}, metadata=too_long)
    assert commit_error(scenario, refused) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    reply = scenario.replies[scenario.fetch(("t", 0), ("t", 1))]
    assert reply.rows == (fetched("t", 0, 1, metadata=fits), fetched("t", 1))


def test_a_character_outside_the_bmp_counts_twice() -> None:
    """Offsets scenario 8. The length is counted in UTF-16 code units, not in characters."""
    scenario = Scenario()
    fits = scenario.commit(None, {("t", 0): 1}, metadata="\U0001f600" * 2_048)
    assert commit_error(scenario, fits) is NONE
    too_long = scenario.commit(None, {("t", 0): 1}, metadata="\U0001f600" * 2_048 + "x")
    assert commit_error(scenario, too_long) is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_topic_id_is_stored_with_the_offset() -> None:
    """Offsets scenario 10. With a good id → value v4 stored with tag 0."""
    scenario = Scenario()
    scenario.commit(None, {("t", 3): 42}, topic_id=TOPIC_A, leader_epoch=5, metadata="m", version=10)
    [(topic, partition, value)] = offset_records(scenario)
    assert (topic, partition) == ("t", 3)
    timestamp = EPOCH.to_bytes(8, "big").hex()
    assert value == bytes.fromhex(f"0004 000000000000002a 00000005 026d {timestamp} 01 00 10") + TOPIC_A


def test_without_a_topic_id_version_3_is_stored() -> None:
    """Offsets scenario 10. Kohort writes v3 unless a topic id must be stored (offsets-and-log 7.2); null
    metadata as ""."""
    scenario = Scenario()
    scenario.sleep(5)
    scenario.commit(None, {("t", 3): 42}, metadata=None, version=9)
    timestamp = (EPOCH + 5).to_bytes(8, "big").hex()
    assert offset_records(scenario) == [
        ("t", 3, bytes.fromhex(f"0003 000000000000002a ffffffff 0000 {timestamp}"))
    ]


def test_the_offset_of_a_topic_that_was_made_anew_is_not_its_offset() -> None:
    """Offsets scenario 11. Given an offset committed with topic id A, topic re-created as B, when OffsetFetch
    v10 asks B → -1; v9 by name → the old offset."""
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 7}, topic_id=TOPIC_A)
    for _ in range(2):
        assert scenario.replies[scenario.fetch(("t", 0), topic_id=TOPIC_B)].rows[0].offset == -1
        assert scenario.replies[scenario.fetch(("t", 0), topic_id=TOPIC_A)].rows[0].offset == 7
        assert scenario.committed("t", 0) == 7
        scenario.restart()  # and the same from the log
    scenario.commit(None, {("t", 1): 8}, version=9)  # stored without an id: any topic of that name
    assert scenario.replies[scenario.fetch(("t", 1), topic_id=TOPIC_B)].rows[0].offset == 8


def test_a_group_that_is_not_there_has_no_offsets() -> None:
    """Offsets scenario 12. Given no such group, when OffsetFetch v8 asks two partitions → two entries -1,
    no error; with null topics → no topics, no error."""
    scenario = Scenario()
    reply = scenario.replies[scenario.fetch(("t", 0), ("u", 1))]
    assert (reply.error, reply.rows) == (NONE, (fetched("t", 0), fetched("u", 1)))
    reply = scenario.replies[scenario.fetch()]
    assert (reply.error, reply.rows) == (NONE, ())
    assert not scenario.exists


def test_a_fetch_of_everything_shows_what_is_stored() -> None:
    """Offsets scenario 12. All topics: stored offsets only; in any state of the group
    (offsets-and-log 3.2)."""
    scenario = stable("a")
    scenario.commit("a", {("t", 0): 7, ("u", 1): 8}, leader_epoch=3, metadata="m")
    reply = scenario.replies[scenario.fetch()]
    assert set(reply.rows) == {fetched("t", 0, 7, 3, "m"), fetched("u", 1, 8, 3, "m")}
    scenario.join("b")
    assert set(scenario.replies[scenario.fetch()].rows) == set(reply.rows)


def test_offsets_of_a_group_with_members_are_deleted_by_type_and_subscription() -> None:
    """Offsets scenario 17. Given a ``connect`` group with members, when OffsetDelete → NON_EMPTY_GROUP; a
    ``consumer`` group → GROUP_SUBSCRIBED_TO_TOPIC for subscribed topics, 0 for others."""
    workers = stable("w", protocol_type="connect")
    assert workers.error(workers.admin.delete_offsets(("t", 0))) is ErrorCode.NON_EMPTY_GROUP
    scenario = stable("a", topics=["t", "u"])
    request = scenario.admin.delete_offsets(("t", 0), ("u", 0), ("v", 0))
    assert [row.error for row in scenario.replies[request].rows] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        NONE,
    ]


def test_a_deletion_in_a_group_that_is_not_there_says_so_even_if_nothing_is_left_to_delete() -> None:
    """Offsets scenario 18. Given OffsetDelete on a missing group with only unknown topics → top-level
    GROUP_ID_NOT_FOUND, no topics."""
    scenario = Scenario()
    request = scenario.admin.delete_offsets()
    assert scenario.replies[request] == DeleteOffsetsReply(error=ErrorCode.GROUP_ID_NOT_FOUND, rows=())


def test_the_empty_group_id_is_a_group_for_offsets() -> None:
    """Offsets scenario 1. Empty group id "" is allowed for commit and fetch, and by DeleteGroups;
    OffsetDelete refuses it (offsets-and-log 2.2, 4)."""
    scenario = Scenario()
    assert commit_error(scenario, scenario.commit(None, {("t", 0): 4}, group="")) is NONE
    assert scenario.committed("t", 0, group="") == 4
    assert scenario.error(scenario.admin.delete_offsets(("t", 0), group="")) is ErrorCode.INVALID_GROUP_ID
    request = scenario.admin.delete_groups("")
    assert scenario.replies[request].groups == ((GroupId(""), NONE),)
    assert scenario.committed("t", 0, group="") == -1


def test_metadata_that_no_record_can_hold_is_too_large_whatever_is_allowed() -> None:
    scenario = Scenario(GroupSettings(offset_metadata_max_bytes=1_000_000))
    too_long = scenario.commit(None, {T0: 5}, metadata="x" * 32_768)
    assert commit_error(scenario, too_long) is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_group_id_that_no_record_can_hold_is_refused() -> None:
    scenario = Scenario(group="日" * 11_000)
    assert commit_error(scenario, scenario.commit(None, {T0: 5})) is ErrorCode.INVALID_GROUP_ID


def test_what_is_asked_for_comes_in_the_order_asked_and_everything_as_stored() -> None:
    scenario = Scenario()
    scenario.commit(None, {T1: 11, T0: 10}, metadata="m", leader_epoch=3)
    assert scenario.replies[scenario.fetch(T0, ("u", 0), T1)].rows == (
        fetched("t", 0, 10, 3, "m"),
        fetched("u", 0),
        fetched("t", 1, 11, 3, "m"),
    )
    assert scenario.replies[scenario.fetch()].rows == (
        fetched("t", 1, 11, 3, "m"),
        fetched("t", 0, 10, 3, "m"),
    )


def test_everything_is_what_was_stored_when_the_fetch_was_decided() -> None:
    scenario = Scenario()
    scenario.commit(None, {T0: 10})
    everything = scenario.replies[scenario.fetch()].rows
    scenario.commit(None, {T0: 11, T1: 1, ("u", 0): 1})
    assert (len(everything), everything) == (1, (fetched("t", 0, 10),))
    assert fetched("t", 0, 10) in everything
