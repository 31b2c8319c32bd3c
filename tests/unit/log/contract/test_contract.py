"""What every log does, whatever it is stored on."""

import pytest
from tests.unit.log.bench import EPOCH, PARTITION, batch, numbered
from tests.unit.log.contract.conftest import Play
from tests.unit.log.contract.subject import Subject

from kohort.log.log import Appended
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset
from kohort.model.topics import TopicPartition
from kohort.records.batch import read_header


def test_appends_get_offsets_in_order_and_are_read_back(play: Play) -> None:
    async def scene(on: Subject) -> None:
        first, second = await on.append(batch(b"a", b"b"), batch(b"c"))
        assert first == Appended(Offset(0), Offset(1), -1, Offset(0), False)
        assert second.base_offset == 2
        assert (on.log.start_offset, on.log.end_offset, on.log.high_watermark) == (0, 3, 3)
        assert await on.values() == [b"a", b"b", b"c"]
        assert await on.values(1) == [b"b", b"c"]
        first_batch = read_header((await on.read(1)).buffers[0])
        assert (first_batch.base_offset, first_batch.partition_leader_epoch) == (0, EPOCH)

    play(scene)


def test_a_read_keeps_to_its_bytes_but_may_have_to_return_one_batch(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a"), batch(b"b"))
        size = (await on.read(1)).size
        assert (await on.read(0, size - 1, at_least_one=False)).size == 0
        assert (await on.read(0, size - 1)).size == size
        assert (await on.read(0, 2 * size - 1)).size == size
        assert (await on.read(0, 2 * size)).size == 2 * size
        assert (await on.read(2)).size == 0
        assert on.log.readable_bytes(Offset(0), Offset(2)) > 0
        assert on.log.readable_bytes(Offset(2), Offset(2)) == 0

    play(scene)


def test_nothing_at_or_beyond_the_limit_is_read(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a"), batch(b"b", b"c"), batch(b"d"))
        assert (await on.read(0, limit=1)).next_offset == 1
        assert (await on.read(1, limit=1)).size == 0
        assert (await on.read(1, limit=2)).size == 0, "a limit inside a batch hides the batch"

    play(scene)


@pytest.mark.parametrize("offset", [-1, 2])
def test_offsets_outside_of_the_log_are_out_of_range(play: Play, offset: int) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a"))
        with pytest.raises(RefusedError) as refused:
            await on.read(offset)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    play(scene)


def test_records_are_found_by_time(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a", b"b", at=1_000), batch(b"c", at=5_000), batch(b"d", at=3_000))
        end = on.log.high_watermark
        found = [await on.log.find_by_time(at, end) for at in (0, 1_001, 1_002, 5_001)]
        assert [each and (each.offset, each.timestamp) for each in found] == [
            (0, 1_000),
            (1, 1_001),
            (2, 5_000),
            None,
        ]
        assert (await on.log.max_timestamp(end) or (None,))[0] == 2

    play(scene)


def test_epochs_tell_where_they_ended_and_an_older_leader_is_refused(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a", b"b"))
        await on.restart(2)
        await on.append(batch(b"c"))
        assert on.log.end_offset_for_epoch(LeaderEpoch(1)) == (1, 2)
        assert on.log.end_offset_for_epoch(LeaderEpoch(2)) == (2, 3)
        assert [on.log.epoch_at(Offset(each)) for each in range(3)] == [1, 1, 2]
        assert await on.refused(batch(b"late"), epoch=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await on.values() == [b"a", b"b", b"c"]

    play(scene)


def test_a_batch_that_comes_again_is_recognised_also_by_the_next_leader(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(numbered(0, 2), numbered(2))
        for epoch in (2, 3):
            (again,) = await on.append(numbered(2))
            assert (again.duplicate, again.base_offset, on.log.end_offset) == (True, 2, 3)
            assert await on.refused(numbered(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            await on.restart(epoch)
        await on.append(numbered(3))
        assert on.log.end_offset == 4

    play(scene)


def test_the_producers_of_a_log_are_listed_with_what_they_wrote_last(play: Play) -> None:
    async def scene(on: Subject) -> None:
        assert not on.log.producers.active()
        await on.append(
            batch(b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0),
            batch(b"c", producer_id=9, producer_epoch=0, base_sequence=5),
        )
        await on.restart(2)
        found = [(id_, each.epoch, each.last_sequence) for id_, each in on.log.producers.active()]
        assert sorted(found) == [(7, 2, 1), (9, 0, 5)]

    play(scene)


def test_a_node_remembers_only_so_many_producers(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.log.producers.MOST_PRODUCERS_OF_A_NODE", 8)

    def of(producer: int, sequence: int) -> bytes:
        return batch(b"a", producer_id=producer, producer_epoch=0, base_sequence=sequence)

    async def scene(on: Subject) -> None:
        await on.append(*[of(number, 0) for number in range(9)])
        assert await on.refused(of(8, 7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        (stored,) = await on.append(of(0, 7))  # forgotten: any sequence
        assert stored.base_offset == 9

    play(scene)


def test_a_deleted_start_is_durable(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a"), batch(b"b"), batch(b"c"))
        assert await on.log.delete_before(Offset(2)) == 2
        assert await on.log.delete_before(Offset(1)) == 2
        with pytest.raises(RefusedError) as refused:
            await on.log.delete_before(Offset(4))
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        await on.restart(2)
        assert (on.log.start_offset, on.log.end_offset) == (2, 3)
        assert await on.values(2) == [b"c"]

    play(scene)


def test_whoever_listens_is_told_of_every_advance(play: Play) -> None:
    async def scene(on: Subject) -> None:
        advanced: list[TopicPartition] = []
        on.storage.on_advance(advanced.append)
        await on.append(batch(b"a"))
        assert advanced == [PARTITION]

    play(scene)


def test_a_released_log_takes_nothing_and_is_whole_when_it_is_opened_again(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a"))
        await on.storage.release([PARTITION])
        assert (await on.refused(batch(b"lost"))).retriable
        await on.open(epoch=3)
        await on.append(batch(b"b"))
        assert await on.values() == [b"a", b"b"]
        assert on.log.leader_epoch == 3

    play(scene)


def test_a_topic_that_is_destroyed_leaves_nothing_for_the_next_of_its_name(play: Play) -> None:
    async def scene(on: Subject) -> None:
        await on.append(batch(b"a"))
        await on.destroy()
        await on.open()
        assert (on.log.start_offset, on.log.end_offset) == (0, 0)

    play(scene)
