"""Where partitions are read from."""

import pytest

from kohort.client.errors import BrokerError
from kohort.client.fetching.chunk import (
    LogTruncationError,
)
from kohort.client.fetching.positions import FetchPositions, ResetPolicy
from kohort.client.metadata import Metadata, Node, PartitionInfo, TopicInfo
from kohort.client.subscription import FetchState, OffsetAndMetadata, PartitionState, Position, Subscriptions
from kohort.model.errors import ErrorCode
from kohort.model.ids import Instant, LeaderEpoch, NodeId, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition

TP = TopicPartition(TopicName("t"), Partition(0))
NOW = Instant(0)


def metadata(leader: int = 1, epoch: int = 5) -> Metadata:
    one = PartitionInfo(Partition(0), NodeId(leader), LeaderEpoch(epoch), (1,), (1,), (), 0)
    topic = TopicInfo(TopicName("t"), TopicId(b"\1" * 16), False, (one,))
    return Metadata(nodes={NodeId(1): Node(NodeId(1), "h", 1)}, topics={topic.name: topic})


class Reader:
    """One assigned partition and its positions."""

    def __init__(self, policy: ResetPolicy = ResetPolicy.LATEST) -> None:
        self.subscriptions = Subscriptions()
        self.subscriptions.assign([TP])
        self.positions = FetchPositions(self.subscriptions, policy, backoff_ms=100)

    @property
    def state(self) -> PartitionState:
        return self.subscriptions.state(TP)

    def at(self, position: Position) -> "Reader":
        self.state.seek(position)
        return self


def test_a_partition_that_came_back_ignores_answers_for_its_former_life() -> None:
    reader = Reader()
    due = reader.positions.due(metadata(), NOW, has_group=True)
    reader.subscriptions.assign([])
    reader.subscriptions.assign([TP])
    reader.positions.committed_found(due.committed, {TP: OffsetAndMetadata(42)})
    assert reader.state.state is FetchState.INITIALIZING
    assert list(reader.positions.due(metadata(), NOW, has_group=True).committed) == [TP]


def test_what_failed_is_asked_again_after_a_pause() -> None:
    reader = Reader()
    due = reader.positions.due(metadata(), NOW, has_group=True)
    passing = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "ask")
    reader.positions.failed(due.committed, passing, NOW)
    assert reader.positions.next_retry() == 100
    assert not reader.positions.due(metadata(), Instant(99), has_group=True).committed
    assert reader.positions.due(metadata(), Instant(100), has_group=True).committed
    reader.positions.raise_pending()


def test_a_refusal_about_partitions_that_are_gone_is_not_raised() -> None:
    reader = Reader()
    due = reader.positions.due(metadata(), NOW, has_group=True)
    reader.subscriptions.unsubscribe()
    reader.positions.failed(due.committed, BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "ask"), NOW)
    reader.positions.raise_pending()
    assert reader.positions.next_retry() is None


def test_a_refusal_whose_partitions_go_before_the_next_poll_is_not_raised() -> None:
    reader = Reader()
    due = reader.positions.due(metadata(), NOW, has_group=True)
    reader.positions.failed(due.committed, BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "ask"), NOW)
    reader.subscriptions.unsubscribe()
    reader.positions.raise_pending()
    reader.subscriptions.assign([TP])
    reader.positions.raise_pending()
    assert reader.positions.due(metadata(), Instant(100), has_group=True).committed


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    due = Reader().positions.due(metadata(leader=-1), NOW, has_group=False)
    assert not due.resets
    assert due.unknown == {"t"}


def test_a_position_without_an_epoch_is_not_validated() -> None:
    reader = Reader().at(Position(10))
    assert not reader.positions.due(metadata(), NOW, has_group=False).validations
    assert reader.state.valid_position == Position(10, -1, 1, 5)


@pytest.mark.parametrize(
    ("policy", "answer", "state", "offset"),
    [
        (ResetPolicy.LATEST, (4, 8), FetchState.FETCHING, 8),
        (ResetPolicy.LATEST, (-1, -1), FetchState.AWAIT_RESET, None),
    ],
)
def test_a_truncated_log_is_followed(
    policy: ResetPolicy, answer: tuple[int, int], state: FetchState, offset: int | None
) -> None:
    reader = Reader(policy).at(Position(10, 5, 1, 5))
    due = reader.positions.due(metadata(epoch=6), NOW, has_group=False)
    reader.positions.validated(TP, due.validations[TP], *answer)
    position = reader.state.position
    assert (reader.state.state, position and position.offset) == (state, offset)


@pytest.mark.parametrize(("answer", "divergent"), [((4, 8), 8), ((-1, -1), None)])
def test_without_a_policy_truncation_is_an_error(answer: tuple[int, int], divergent: int | None) -> None:
    reader = Reader(ResetPolicy.NONE).at(Position(10, 5, 1, 5))
    due = reader.positions.due(metadata(epoch=6), NOW, has_group=False)
    reader.positions.validated(TP, due.validations[TP], *answer)
    with pytest.raises(LogTruncationError) as caught:
        reader.positions.raise_pending()
    assert caught.value.divergent == {TP: divergent}
