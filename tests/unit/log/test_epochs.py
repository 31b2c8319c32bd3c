"""Which epoch wrote what, and what OffsetForLeaderEpoch answers."""

from kohort.log.epochs import LeaderEpochs
from kohort.model.ids import LeaderEpoch, Offset


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries])


def end_of(known: LeaderEpochs, epoch: int, log_end: int = 100) -> tuple[int, int]:
    return known.end_of(LeaderEpoch(epoch), Offset(log_end))


KNOWN = epochs((2, 0), (5, 10), (6, 40))


def test_the_current_epoch_ends_with_the_log() -> None:
    assert end_of(KNOWN, 6) == (6, 100)


def test_an_epoch_ends_where_the_next_one_known_begins() -> None:
    assert end_of(KNOWN, 5) == (5, 40)
    assert end_of(KNOWN, 2) == (2, 10)


def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before() -> None:
    assert end_of(KNOWN, 4) == (2, 10)


def test_an_epoch_older_than_all_ends_where_the_first_begins() -> None:
    assert end_of(epochs((2, 7), (5, 10)), 1) == (1, 7)


def test_what_is_newer_or_not_an_epoch_is_unknown() -> None:
    assert end_of(KNOWN, 7) == (-1, -1)
    assert end_of(KNOWN, -1) == (-1, -1)
    assert end_of(epochs(), 0) == (-1, -1)


def test_the_epoch_of_an_offset() -> None:
    assert [KNOWN.at(Offset(offset)) for offset in (0, 9, 10, 39, 40, 99)] == [2, 2, 5, 5, 6, 6]
    assert epochs((2, 7)).at(Offset(6)) == -1


def test_an_epoch_begins_once_and_leaves_no_trace_of_those_that_wrote_nothing() -> None:
    known = epochs((1, 0))
    assert known.begin(LeaderEpoch(2), Offset(5))
    assert not known.begin(LeaderEpoch(2), Offset(9))
    assert not known.begin(LeaderEpoch(1), Offset(9))
    assert known.begin(LeaderEpoch(3), Offset(5))
    assert known.entries == [(1, 0), (3, 5)]
    assert known.latest == 3


def test_truncation_forgets_what_begins_at_the_end() -> None:
    known = epochs((1, 0), (2, 5), (3, 9))
    assert known.truncate(Offset(5))
    assert known.entries == [(1, 0)]
    assert not known.truncate(Offset(5))


def test_deletion_moves_the_epoch_that_holds_the_new_start() -> None:
    known = epochs((1, 0), (2, 5), (3, 9))
    assert known.delete_before(Offset(7))
    assert known.entries == [(2, 7), (3, 9)]
    assert not known.delete_before(Offset(7))
    assert not known.delete_before(Offset(3))
