"""What is handed out of the fetched data, and what is not."""

import pytest

from kohort.client.fetching import chunk as chunk_module
from kohort.client.fetching.buffer import FetchBuffer
from kohort.client.fetching.chunk import BadRecordError, Chunk, Reading
from kohort.client.subscription import PartitionState, Position, Subscriptions
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.wire.messages.fetch import PartitionData

A, B = (TopicPartition(TopicName("t"), Partition(number)) for number in (0, 1))


class Desk:
    """Two assigned partitions at offset 0, and a buffer."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.subscriptions.assign([A, B])
        for each in (A, B):
            self.subscriptions.state(each).seek(Position(0))
        self.refused: list[int] = []
        self.buffer = FetchBuffer(self.subscriptions, self._refuse)

    def _refuse(self, chunk: Chunk, state: PartitionState, position: Position) -> None:
        self.refused.append(chunk.error_code)

    def arrive(self, where: TopicPartition, *values: bytes, base: int = 0, damage: bool = False) -> None:
        blob = bytearray(
            build_batch(
                [NewRecord(0, None, one) for one in values], BatchFields(base_offset=base, leader_epoch=6)
            )
        )
        if damage:
            blob[-1] ^= 1
        self.buffer.add(Chunk(where, base, PartitionData(records=bytes(blob)), Reading()))

    def collect(self, limit: int = 10) -> dict[TopicPartition, list[bytes]]:
        found = self.buffer.collect(limit).records
        return {each: [record.value for record in records] for each, records in found.items()}


def test_the_limit_counts_over_all_partitions() -> None:
    desk = Desk()
    desk.arrive(A, b"a", b"b")
    desk.arrive(B, b"c", b"d")
    assert desk.collect(3) == {A: [b"a", b"b"], B: [b"c"]}
    assert desk.collect(3) == {B: [b"d"]}


def test_partitions_that_went_or_are_about_to_go_give_nothing() -> None:
    desk = Desk()
    desk.arrive(A, b"a")
    desk.arrive(B, b"b")
    desk.subscriptions.mark_pending_revocation([B])
    desk.subscriptions.assignment = desk.subscriptions.assignment.replaced([B])
    assert desk.collect() == {}


def test_an_error_waits_until_nothing_else_is_there() -> None:
    desk = Desk()
    desk.arrive(A, b"a")
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    desk.buffer.add(Chunk(B, 0, PartitionData(error_code=code), Reading()))
    assert desk.collect() == {A: [b"a"]}
    assert desk.refused == []
    assert desk.collect() == {}
    assert desk.refused == [code]


def more(desk: Desk, limit: int) -> list[bytes] | None:
    found = desk.buffer.collect_more(limit)
    return None if found is None else [one.value for portion in found.values() for one in portion]


@pytest.mark.parametrize("change", ["seek", "pause", "revoke", "take away"])
def test_there_is_no_more_after_a_change(change: str) -> None:
    desk = Desk()
    desk.arrive(A, b"a", b"b", b"c")
    assert desk.collect(1) == {A: [b"a"]}
    if change == "seek":
        desk.subscriptions.state(A).seek(Position(0))
    elif change == "pause":
        desk.subscriptions.state(A).is_paused = True
    elif change == "revoke":
        desk.subscriptions.mark_pending_revocation([A])
    else:
        desk.subscriptions.assignment = desk.subscriptions.assignment.replaced([B])
    assert more(desk, 1) is None


def test_a_record_nobody_can_deserialize_is_raised_by_more_too() -> None:
    desk = Desk()
    values = [NewRecord(0, None, one) for one in (b"1", b"2", b"x", b"4", b"5")]
    answered = PartitionData(records=build_batch(values, BatchFields()))
    desk.buffer.add(Chunk(A, 0, answered, Reading(value_deserializer=int)))
    assert desk.buffer.collect(1).records != {}
    assert desk.buffer.collect_more(2) is not None
    for _ in range(2):
        with pytest.raises(BadRecordError, match="offset 2"):
            desk.buffer.collect_more(2)
    assert desk.subscriptions.state(A).position == Position(2, -1)


def test_an_error_that_was_read_ahead_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "_WORTH_NUMPY", 1)
    desk = Desk()
    desk.arrive(A, b"a", b"b")
    assert desk.collect(1) == {A: [b"a"]}
    desk.buffer.add(Chunk(A, 2, PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), Reading()))
    assert desk.collect(9) == {A: [b"b"]}
    assert desk.refused == []
    assert desk.collect(9) == {}
    assert desk.refused == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_records_are_not_lost_if_the_thread_is_interrupted_before_it_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    desk.arrive(A, b"a", b"b", b"c")
    assert desk.collect(1) == {A: [b"a"]}

    def interrupted(buffer: FetchBuffer, chunk: Chunk, position: Position | None) -> bool:
        move(buffer, chunk, position)
        raise KeyboardInterrupt

    move = FetchBuffer._move
    with monkeypatch.context() as patched:
        patched.setattr(FetchBuffer, "_move", interrupted)
        with pytest.raises(KeyboardInterrupt):
            desk.buffer.collect_more(1)
    assert desk.subscriptions.state(A).position == Position(1, 6)
    assert desk.collect() == {}  # what is left does not fit the position: it is fetched again
    assert A not in desk.buffer
