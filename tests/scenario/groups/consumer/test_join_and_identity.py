"""Consumer groups: who may join, and under which name (modern-groups 18, scenarios 1 to 20)."""

import pytest

from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    FetchOffsets,
    FetchTopic,
)
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicName
from kohort.records.group_records import ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue
from kohort.records.offsets_topic import decode_value, encode_key
from kohort.sim.consumers import Beat, BeatOptions, ConsumerScenario


def reconciled_at_four() -> ConsumerScenario:
    """Member a, stable at epoch 4 with two of the four partitions, before at epoch 3."""
    group = ConsumerScenario(t=4)
    group.join("a")
    for name in ("b", "c"):
        group.join(name)
        group.settle()
    group.beat("c", epoch=-1)
    group.settle()
    assert (group.epochs["a"], group.assigned("a")) == (4, {"t": [0, 1]})
    return group


def test_the_first_member_gets_everything() -> None:
    """Modern scenario 1. Given no group, when v1 join with id M and a topic of two partitions, then epoch 1
    and both; records 5, 3, 7, 6, 8."""
    group = ConsumerScenario(t=2)
    assert group.join("M") == Beat(ErrorCode.NONE, "M", 1, 5_000, {"t": [0, 1]})
    assert group.written() == ["5", "3", "7", "6", "8"]


def test_version_0_is_given_an_id() -> None:
    """Modern scenario 2. Given no group, when v0 join with id "", then an id is returned and used."""
    group = ConsumerScenario(t=2)
    assert group.join("a", member_id="", version=0).member_id == "fresh-a"
    assert list(group.group.members) == ["fresh-a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": ""},
        {"member_id": "", "version": 0, "epoch": 3},
        {"member_id": "", "version": 0, "epoch": -1},
        {"timeout": -1},
        {"owned": None},
        {"owned": {"t": [0]}},
        {"names": None},
        {"epoch": -3},
        {"epoch": -2},
        {"instance": ""},
        {"rack": ""},
    ],
)
def test_invalid_requests_change_nothing(wrong: BeatOptions) -> None:
    """Modern scenario 3. Given v1 and id "", or v0 with epoch 3 and id "", then INVALID_REQUEST.
    Modern scenario 4. Given a join without timeout, with owned partitions, or without topics, likewise.
    Modern scenario 5. Given epoch -3, -2 without instance id, or empty instance and rack ids, likewise.
    Modern trap 1. A join says that it owns nothing; null is not nothing."""
    group = ConsumerScenario(t=2)
    assert group.join("a", **wrong).error is ErrorCode.INVALID_REQUEST
    assert not group.node.shard.state.groups
    assert not group.node.log


def test_a_member_is_stored_with_sorted_names() -> None:
    """Modern trap 9. The names in a record 5 are sorted, and each is there once."""
    group = ConsumerScenario(t=2)
    group.join("a", names=["u", "t", "u"])
    key = encode_key(ConsumerGroupMemberMetadataKey("g", "a"))
    (stored,) = [record.value for record in group.node.log if record.key == key]
    assert stored is not None
    value = decode_value(ConsumerGroupMemberMetadataValue, stored)
    assert (value.client_host, value.subscribed_topic_names) == ("/127.0.0.1", ["t", "u"])


def test_no_topics_is_a_subscription() -> None:
    """Modern scenario 6. Given a join with names [], then epoch 1 and a present, empty assignment."""
    group = ConsumerScenario(t=2)
    assert group.join("a", names=[]) == Beat(ErrorCode.NONE, "a", 1, 5_000, {})


def test_an_unknown_assignor_is_refused() -> None:
    """Modern scenario 7. Given ServerAssignor "foo", then UNSUPPORTED_ASSIGNOR, and no group is created."""
    group = ConsumerScenario(t=2)
    assert group.join("a", assignor="foo").error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert not group.node.shard.state.groups


def test_a_full_group_refuses_others() -> None:
    """Modern scenario 8. Given max size 1 and one member, when another joins, then
    GROUP_MAX_SIZE_REACHED; the first can go on."""
    group = ConsumerScenario(GroupSettings(consumer_max_size=1), t=2)
    group.join("a")
    assert group.join("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.beat("a").error is ErrorCode.NONE


def test_members_and_groups_that_are_not_there() -> None:
    """Modern scenario 9. Given epoch 5 for a missing group, then GROUP_ID_NOT_FOUND; for an unknown member,
    UNKNOWN_MEMBER_ID."""
    group = ConsumerScenario(t=2)
    assert group.beat("a", epoch=5).error is ErrorCode.GROUP_ID_NOT_FOUND
    group.join("a")
    assert group.beat("b", epoch=5).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_topic_that_comes_later_is_assigned() -> None:
    """Modern scenario 10. Given a subscription to a topic that does not exist, then epoch 1 and nothing; when
    it is created, the next heartbeat bumps to 2 and assigns."""
    group = ConsumerScenario()
    assert group.join("a").assignment == {}
    group.node.put_topic("t", 2)
    beat = group.beat("a")
    assert (beat.epoch, beat.assignment) == (2, {"t": [0, 1]})


def test_an_empty_classic_group_is_replaced() -> None:
    """Modern scenario 11. Given an empty classic group with offsets, when a consumer member joins, then the
    type is consumer, type 2 is tombstoned, and the offsets are still there, also after a restart."""
    group = ConsumerScenario(t=2)
    row = CommitRow(TopicName("t"), Partition(0), 7)
    group.ask(CommitOffsets(reply_to=group.next_request(), group_id=group.group_id, rows=(row,)))
    group.join("a")
    assert group.written(1)[:2] == ["2t", "5"]
    for _ in range(2):
        topics = (FetchTopic(TopicName("t"), (Partition(0),)),)
        fetch = FetchOffsets(reply_to=group.next_request(), group_id=group.group_id, topics=topics)
        assert group.ask(fetch).rows[0].offset == 7
        assert group.group.type_name == "consumer"
        group.node.restart()


def test_an_epoch_from_the_future_is_fenced() -> None:
    """Modern scenario 13. Given member epoch 4, when heartbeat epoch 5, then FENCED_MEMBER_EPOCH."""
    group = reconciled_at_four()
    assert group.beat("a", epoch=5).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_lost_reply_is_forgiven() -> None:
    """Modern scenario 14. Given epoch 4, previous 3, when epoch 3 with a part of what is assigned, then
    accepted with epoch 4."""
    group = reconciled_at_four()
    assert group.beat("a", epoch=3, owned={"t": [0]}).epoch == 4


@pytest.mark.parametrize(("epoch", "owned"), [(3, None), (3, {"t": [2]}), (2, {"t": [0]})])
def test_other_old_epochs_are_fenced(epoch: int, owned: dict[str, list[int]] | None) -> None:
    """Modern scenario 15. Same but owned null, or more than assigned, then FENCED_MEMBER_EPOCH.
    Modern scenario 16. Given epoch 4, previous 3, when epoch 2, then FENCED_MEMBER_EPOCH."""
    group = reconciled_at_four()
    assert group.beat("a", epoch=epoch, owned=owned).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_rejoin_keeps_everything() -> None:
    """Modern scenario 17. Given stable at epoch 4, when rejoin with epoch 0, then epoch 4, the full
    assignment, and the group epoch stays."""
    group = reconciled_at_four()
    beat = group.join("a")
    assert (beat.epoch, beat.assignment, group.group.epoch) == (4, {"t": [0, 1]}, 4)


def test_a_rejoin_completes_a_revocation() -> None:
    """Modern scenario 18. Given a revocation is pending, when rejoin with epoch 0, then it is complete, and
    the member moves to the target epoch."""
    group = ConsumerScenario(t=2)
    group.join("a")
    group.join("b")
    group.beat("a")
    assert group.pending("a") == {"t": [1]}
    beat = group.join("a")
    assert (beat.epoch, beat.assignment, group.pending("a")) == (2, {"t": [0]}, {})


def test_nothing_to_say_writes_nothing() -> None:
    """Modern scenario 19. Given a heartbeat without news, then the same epoch, no assignment, no records.
    Modern scenario 20. Given a full heartbeat when stable, then the assignment is there and equal."""
    group = reconciled_at_four()
    log = len(group.node.log)
    assert group.beat("a") == Beat(ErrorCode.NONE, "a", 4, 5_000, None)
    full = group.beat("a", timeout=60_000, names=["t"], owned={"t": [0, 1]})
    assert full.assignment == {"t": [0, 1]}
    assert len(group.node.log) == log
