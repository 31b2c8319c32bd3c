"""Any operation of the disk, any thread and any job may fail, once or for a while: nothing stays broken.

What "nothing" means is in ``outages``: after the outage everything answers within ten seconds of the broker's
clock without a restart, nothing acknowledged is lost, no topic is half there, no traceback is logged,
and an outage that lasts is in the log, each failure in a line with a path, a partition or a group.
"""

from errno import EIO, ENOMEM, ENOSPC

import pytest
from tests.fault.outages import FOR_EVER, run

from kohort.log.log import SyncPolicy
from kohort.testing.faults import Kind, Outage


def sweep(outage: Outage, policy: SyncPolicy = SyncPolicy.COMMIT, *, stride: int = 1, rounds: int = 2) -> int:
    """Live a day for each operation, or each ``stride``-th, at which the outage may begin; how many days."""
    moments = range(outage.first, run(None, policy, rounds).asked[outage.kind] + 1, stride)
    for first in moments:
        try:
            run(outage._replace(first=first), policy, rounds)
        except Exception as error:
            error.add_note(f"in run({outage._replace(first=first)}, {policy}, {rounds})")
            raise
    return len(moments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_one_operation_that_fails_leaves_nothing_broken(kind: Kind) -> None:
    assert sweep(Outage(kind, 1), stride=3) > 2  # the soak below has every operation


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_operations_that_fail_until_they_are_healed_leave_nothing_broken(kind: Kind) -> None:
    assert sweep(Outage(kind, 5, FOR_EVER), stride=37) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.READ, Kind.WRITE])
def test_an_operation_that_finds_no_memory_leaves_nothing_broken(kind: Kind) -> None:
    assert sweep(Outage(kind, 3, error=ENOMEM), stride=13) > 5


LASTING = [(Kind.READ, 28, ENOMEM), (Kind.TRUNCATE, 71, ENOSPC), (Kind.UNLINK, 34, ENOMEM)]


@pytest.mark.parametrize(("kind", "first", "error"), LASTING)
def test_an_outage_that_few_notice_is_in_the_log_with_its_place(kind: Kind, first: int, error: int) -> None:
    run(Outage(kind, first, FOR_EVER, error), SyncPolicy.COMMIT, rounds=6)


def test_epochs_that_cannot_be_written_are_in_the_log() -> None:
    run(Outage(Kind.SYNC, 202, FOR_EVER, ENOSPC), SyncPolicy.INTERVAL, rounds=6)


@pytest.mark.soak
@pytest.mark.parametrize("policy", list(SyncPolicy))
@pytest.mark.parametrize("error", [EIO, ENOSPC, ENOMEM])
@pytest.mark.parametrize("length", [1, 4, FOR_EVER])
@pytest.mark.parametrize("kind", list(Kind))
def test_an_outage_of_any_kind_and_length_at_any_moment_leaves_nothing_broken(
    kind: Kind, length: int, error: int, policy: SyncPolicy
) -> None:
    assert sweep(Outage(kind, 1, length, error), policy, rounds=6) > 5
