"""The time that deletion goes by."""

import pytest

from kohort.model.ids import Instant, Now, WallTime
from kohort.model.steady_time import PATIENCE_MS, TOLERANCE_MS, SteadyTime

WALL = 1_700_000_000_000
DAY = 86_400_000


def moment(instant: int, jumped: int = 0) -> Now:
    return Now(Instant(instant), WallTime(WALL + instant + jumped))


def started() -> SteadyTime:
    steady = SteadyTime()
    assert steady.at(moment(0)) == WALL
    return steady


@pytest.mark.parametrize("passed", [1, 1_000, 10 * DAY])
def test_time_that_passes_on_both_clocks_is_believed(passed: int) -> None:
    assert started().at(moment(passed)) == WALL + passed


def test_small_corrections_are_believed_and_do_not_add_up() -> None:
    steady = started()
    for step in range(1, 100):
        assert steady.at(moment(step, step * TOLERANCE_MS)) == WALL + step + step * TOLERANCE_MS
    assert steady.jump is None


def test_a_jump_forward_is_not_believed_until_it_has_lasted() -> None:
    steady = started()
    assert steady.at(moment(1_000, DAY)) == WALL + 1_000
    assert steady.jump == (DAY, 1_000 + PATIENCE_MS)
    assert steady.at(moment(PATIENCE_MS, DAY)) == WALL + PATIENCE_MS
    assert steady.at(moment(PATIENCE_MS + 1_000, DAY)) == WALL + PATIENCE_MS + 1_000 + DAY
    assert steady.jump is None


def test_a_clock_that_is_corrected_in_time_has_done_no_harm() -> None:
    steady = started()
    steady.at(moment(1_000, DAY))
    assert steady.at(moment(2_000)) == WALL + 2_000
    assert steady.jump is None
    assert steady.at(moment(PATIENCE_MS + 3_000)) == WALL + PATIENCE_MS + 3_000


def test_a_second_jump_begins_the_wait_again() -> None:
    steady = started()
    steady.at(moment(1_000, DAY))
    assert steady.at(moment(5_000, 3 * DAY)) == WALL + 5_000
    assert steady.jump == (3 * DAY, 5_000 + PATIENCE_MS)


def test_a_jump_back_is_believed_at_once() -> None:
    steady = started()
    assert steady.at(moment(1_000, -DAY)) == WALL + 1_000 - DAY
    assert steady.jump is None
    assert steady.at(moment(2_000)) == WALL + 2_000 - DAY  # and forward again is a jump
