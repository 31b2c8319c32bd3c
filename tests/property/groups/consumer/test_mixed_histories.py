"""Whatever members of both protocols do in one group, in whatever order: its promises hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.sim.consumer_world import ConsumerWorld

CHOICES = st.lists(st.integers(0, 999), min_size=30, max_size=60)


def play(world: ConsumerWorld, choices: list[int]) -> None:
    """Take one step for each number; then all go on until nothing changes."""
    path: list[str] = []
    for choice in choices:
        steps = list(world.steps())
        label, step = steps[choice % len(steps)]
        path.append(label)
        step(world)
        assert list(world.complaints()) == [], path
    world.fall_silent()
    assert list(world.end_complaints()) == [], path


@pytest.mark.slow
@settings(max_examples=60)
@given(eager=st.booleans(), slow_log=st.booleans(), choices=CHOICES)
def test_no_history_of_both_kinds_of_members_breaks_a_promise(
    eager: bool, slow_log: bool, choices: list[int]
) -> None:
    """No partition has two owners in one epoch, members that are left alone converge, and no offset that was
    acknowledged goes back."""
    play(ConsumerWorld(eager=eager, slow_log=slow_log), choices)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=3_000, deadline=None)
@given(eager=st.booleans(), slow_log=st.booleans(), choices=CHOICES)
def test_no_history_of_many_breaks_a_promise(eager: bool, slow_log: bool, choices: list[int]) -> None:
    play(ConsumerWorld(eager=eager, slow_log=slow_log), choices)
