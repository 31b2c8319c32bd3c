"""Any operation of the disk, any thread and any job may fail, once or for a while: nothing stays broken.

What "nothing" means is in ``outages``: after the outage everything answers within ten seconds of the broker's
clock without a restart, nothing acknowledged is lost, no topic is half there, no traceback is logged.
"""

import pytest
from tests.fault.outages import FOR_EVER, run

from kohort.log.log import SyncPolicy
from kohort.testing.faults import Kind, Outage


def sweep(kind: Kind, length: int, policy: SyncPolicy, *, stride: int = 1, rounds: int = 2) -> int:
    """Live a day for each operation of a kind at which an outage may begin; how many days that were."""
    moments = range(1, run(None, policy, rounds).asked[kind] + 1, stride)
    for first in moments:
        try:
            run(Outage(kind, first, length), policy, rounds)
        except Exception as error:
            error.add_note(f"in run({Outage(kind, first, length)}, {policy}, {rounds})")
            raise
    return len(moments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_one_operation_that_fails_leaves_nothing_broken(kind: Kind) -> None:
    assert sweep(kind, 1, SyncPolicy.COMMIT) > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_operations_that_fail_until_they_are_healed_leave_nothing_broken(kind: Kind) -> None:
    assert sweep(kind, FOR_EVER, SyncPolicy.COMMIT, stride=31) > 0


@pytest.mark.soak
@pytest.mark.parametrize("policy", list(SyncPolicy))
@pytest.mark.parametrize("length", [1, 4, FOR_EVER])
@pytest.mark.parametrize("kind", list(Kind))
def test_an_outage_of_any_length_at_any_moment_leaves_nothing_broken(
    kind: Kind, length: int, policy: SyncPolicy
) -> None:
    assert sweep(kind, length, policy, rounds=12) > 5
