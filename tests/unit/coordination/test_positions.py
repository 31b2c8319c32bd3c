"""Log positions, and the replies that wait for them."""

from kohort.coordination.positions import NOTHING, Positions, Reply
from kohort.model.ids import ReplyTo


def parked(positions: Positions[str], number: int, after: int) -> None:
    positions.park(Reply(ReplyTo(number), f"reply {number}", after))


def numbers(replies: list[Reply[str]]) -> list[int]:
    return [reply.reply_to for reply in replies]


def test_a_position_lets_everything_go_that_rests_on_it_or_on_an_earlier_one() -> None:
    positions = Positions[str]()
    assert [positions.write() for _ in range(3)] == [1, 2, 3]
    parked(positions, 10, after=2)
    parked(positions, 11, after=1)
    parked(positions, 12, after=2)
    parked(positions, 13, after=3)
    assert numbers(positions.store(2)) == [11, 10, 12]
    assert numbers(positions.store(2)) == []
    assert numbers(positions.store(3)) == [13]
    assert positions.parked == {}


def test_a_subject_rests_on_its_newest_change_until_that_is_stored() -> None:
    positions = Positions[str]()
    for subject in ("g", "h", "g"):
        positions.changed(subject, positions.write())
    assert [positions.of(each) for each in ("g", "h", "unknown")] == [3, 2, NOTHING]
    positions.store(2)
    assert [positions.of(each) for each in ("g", "h")] == [3, NOTHING]
    positions.store(3)
    assert positions.of("g") == NOTHING


def test_a_view_of_everything_rests_on_the_newest_position_that_is_not_stored() -> None:
    positions = Positions[str]()
    assert positions.newest() == NOTHING
    positions.write()
    positions.write()
    assert positions.newest() == 2
    positions.store(1)
    assert positions.newest() == 2
    positions.store(2)
    assert positions.newest() == NOTHING
