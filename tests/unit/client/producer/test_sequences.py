import pytest
from tests.unit.client.producer.lanes import HERE, THERE

from kohort.client.producer.batch import LAST_EPOCH, Sequences


@pytest.fixture
def sequences() -> Sequences:
    made = Sequences()
    made.identify(7, 0)
    return made


def test_after_the_last_number_comes_zero(sequences: Sequences) -> None:
    sequences.assign(HERE, 2**31 - 1)

    assert sequences.assign(HERE, 2).base_sequence == 2**31 - 1
    assert sequences.assign(HERE, 1).base_sequence == 1


def test_starting_over_what_never_began_changes_nothing(sequences: Sequences) -> None:
    sequences.start_over(HERE)

    assert sequences.assign(HERE, 1) == (7, 0, 0)


def test_when_the_epochs_are_used_up_another_id_is_needed() -> None:
    sequences = Sequences()
    sequences.identify(7, LAST_EPOCH)
    sequences.assign(HERE, 1)

    sequences.start_over(HERE)

    assert sequences.needs_identity
    sequences.identify(8, 0)
    assert sequences.assign(HERE, 1) == (8, 0, 0)


def test_a_partition_that_gives_up_an_older_id_leaves_the_newer_one(sequences: Sequences) -> None:
    sequences.assign(HERE, 1)
    sequences.assign(THERE, 1)
    sequences.renounce(HERE)
    sequences.identify(8, 0)

    sequences.renounce(THERE)

    assert not sequences.needs_identity
    assert sequences.assign(THERE, 1) == (8, 0, 0)
