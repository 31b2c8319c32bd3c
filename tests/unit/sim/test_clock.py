"""Virtual time."""

import pytest

from kohort.model.ids import Instant
from kohort.sim.clock import EPOCH, SimulatedClock


def test_time_passes_when_it_is_told_to() -> None:
    clock = SimulatedClock()
    assert clock.now == (0, EPOCH)
    clock.move_to(Instant(1_500))
    assert clock.now == (1_500, EPOCH + 1_500)


def test_time_does_not_run_backwards() -> None:
    clock = SimulatedClock()
    clock.move_to(Instant(5))
    with pytest.raises(AssertionError, match="backwards"):
        clock.move_to(Instant(4))
