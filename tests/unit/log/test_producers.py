"""What an idempotent producer may write next."""

import pytest
from tests.unit.log.bench import batch, numbered
from tests.unit.records.markers import end_marker

from kohort.log import producers as module
from kohort.log.producers import CorruptSnapshotError, ProducerRoom, Producers
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset, WallTime
from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchHeader, read_header
from kohort.records.build import BatchFields
from kohort.records.control import ControlType

LAST_SEQUENCE = 2_147_483_647


class Story:
    """A partition as its producers see it."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.end = 0

    def write(self, content: bytes) -> int | None:
        """Check and append; the base offset of the original if the batch is a repetition."""
        header = read_header(content)
        original = self.producers.check(header)
        if original is not None:
            return original.base_offset
        self.store(header)
        return None

    def store(self, header: BatchHeader) -> None:
        self.producers.update(header, Offset(self.end), header.max_timestamp)
        self.end += header.last_offset_delta + 1

    def refuse(self, content: bytes) -> ErrorCode:
        with pytest.raises(RefusedError) as refusal:
            self.write(content)
        return refusal.value.code


def in_transaction(sequence: int) -> bytes:
    return batch(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


def marker(epoch: int = 0) -> BatchHeader:
    fields = BatchFields(producer_id=7, producer_epoch=epoch)
    return read_header(end_marker(ControlType.COMMIT, 1_000, fields))


def test_the_most_silent_producer_is_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_PRODUCERS", 3)

    def of(producer_id: int, sequence: int) -> bytes:
        return batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    story = Story()
    for producer_id in (1, 2, 3, 1, 4):
        story.write(of(producer_id, 1 if producer_id == 1 and story.end == 3 else 0))
    assert len(story.producers) == 3
    assert [story.write(of(1, 1)), story.write(of(3, 0)), story.write(of(4, 0))] == [3, 2, 4]
    assert story.write(of(2, 17)) is None  # forgotten: any sequence
    reborn = Producers.from_snapshot(story.producers.snapshot())
    reborn.update(read_header(of(9, 0)), Offset(9), 1)
    assert len(reborn) == 3


def filled(room: ProducerRoom, count: int) -> Story:
    """A partition that so many producers write to, one after another."""
    story = Story()
    story.producers.share(room)
    for producer_id in range(count):
        story.write(batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    return story


def test_partitions_with_the_most_producers_forget_some_when_those_of_a_node_are_too_many() -> None:
    room = ProducerRoom(80)
    quiet, loud, louder = filled(room, 5), filled(room, 35), filled(room, 40)
    assert [len(each.producers) for each in (quiet, loud, louder)] == [5, 35, 40]
    assert louder.write(batch(b"v", producer_id=50, producer_epoch=0, base_sequence=0)) is None
    assert [len(each.producers) for each in (quiet, loud, louder)] == [5, 32, 32]  # seven eighths
    assert quiet.write(batch(b"v", producer_id=0, producer_epoch=0, base_sequence=0)) == 0  # known
    assert loud.write(batch(b"v", producer_id=3, producer_epoch=0, base_sequence=0)) == 3
    assert loud.write(batch(b"v", producer_id=2, producer_epoch=0, base_sequence=7)) is None  # forgotten


def test_what_has_expired_or_is_gone_takes_no_room() -> None:
    room = ProducerRoom(80)
    story, gone = filled(room, 40), filled(room, 40)
    del gone
    story.producers.expire(WallTime(2**40), 1)
    assert len(story.producers) == 0
    others = filled(room, 75)
    assert len(others.producers) == 75


def test_producers_of_a_log_that_is_opened_count_at_once() -> None:
    room = ProducerRoom(80)
    known = filled(ProducerRoom(1_000), 300).producers
    Producers.from_snapshot(known.snapshot()).share(room)
    known.share(room)
    assert len(known) == 70


def test_a_producer_with_an_open_transaction_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PRODUCERS", 2)
    story = Story()
    story.write(in_transaction(0))
    for producer_id in (1, 2):
        story.write(batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    assert len(story.producers) == 2
    assert story.write(in_transaction(0)) == 0


def test_a_batch_that_ends_like_a_stored_one_but_begins_elsewhere_is_no_repetition() -> None:
    story = Story()
    story.write(numbered(0, 3))
    assert story.refuse(numbered(1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around() -> None:
    story = Story()
    story.write(numbered(LAST_SEQUENCE, 2))  # the numbers 2147483647 and 0
    assert story.refuse(numbered(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write(numbered(1)) is None
    assert story.write(numbered(LAST_SEQUENCE, 2)) == 0


def test_after_a_marker_of_a_newer_epoch_numbers_begin_at_zero() -> None:
    story = Story()
    story.write(numbered(0))
    story.store(marker(epoch=1))
    assert story.refuse(numbered(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write(numbered(0, epoch=1)) is None


def test_a_batch_outside_an_open_transaction_is_refused() -> None:
    story = Story()
    story.write(in_transaction(0))
    assert story.refuse(numbered(1)) is ErrorCode.INVALID_TXN_STATE
    story.store(marker())
    assert story.write(numbered(1)) is None


def test_silence_makes_a_producer_unknown_but_not_within_a_transaction() -> None:
    story = Story()
    story.write(numbered(0, producer=1))
    story.write(in_transaction(0))
    story.producers.expire(WallTime(1_999), after_ms=1_000)
    assert len(story.producers) == 2
    story.producers.expire(WallTime(2_000), after_ms=1_000)
    assert len(story.producers) == 1
    assert story.write(numbered(50, producer=1)) is None


def test_a_snapshot_remembers_the_last_batch_of_each_producer() -> None:
    story = Story()
    story.write(numbered(0, 2))
    story.write(numbered(2, 3))
    story.write(in_transaction_of_another())
    story.producers = Producers.from_snapshot(story.producers.snapshot())
    assert story.write(numbered(2, 3)) == 2
    assert story.refuse(numbered(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write(numbered(5)) is None
    assert story.producers.last_offsets() == {7: 6, 8: 5}


def in_transaction_of_another() -> bytes:
    return batch(b"v", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)


def test_a_snapshot_of_a_producer_that_only_has_a_marker_holds_no_batch() -> None:
    story = Story()
    story.store(marker())
    restored = Producers.from_snapshot(story.producers.snapshot())
    assert len(restored) == 1
    assert restored.last_offsets() == {}


def test_the_bytes_of_a_snapshot_are_those_of_kafka() -> None:
    story = Story()
    story.write(numbered(3, 2, producer=258, epoch=9))
    content = story.producers.snapshot()
    assert content[:2] == b"\x00\x01"
    assert content[6:10] == b"\x00\x00\x00\x01"
    assert content[10:] == bytes.fromhex(
        "0000000000000102 0009 00000004 0000000000000001 00000001 00000000000003e9 ffffffff ffffffffffffffff"
    )


@pytest.mark.parametrize("damage", ["cut", "version", "checksum", "count", "empty"])
def test_a_damaged_snapshot_is_refused(damage: str) -> None:
    story = Story()
    story.write(numbered(0))
    content = bytearray(story.producers.snapshot())
    match damage:
        case "cut":
            del content[-1:]
        case "version":
            content[1] = 2
        case "checksum":
            content[-1] ^= 1
        case "count":
            content[9] = 2
            content[2:6] = crc32c(content[6:]).to_bytes(4)
        case _:
            content.clear()
    with pytest.raises(CorruptSnapshotError):
        Producers.from_snapshot(bytes(content))


def test_replaying_the_log_restores_what_is_known() -> None:
    producers = Producers()
    producers.replay(read_header(batch(b"no producer")))
    producers.replay(read_header(numbered(4)))
    assert len(producers) == 1
    assert producers.check(read_header(numbered(4))) is not None
