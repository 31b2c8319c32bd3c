"""The disk fills up, at any byte, and has space again later."""

import pytest
from tests.unit.log.bench import Bench, append_of, batch

from kohort.log.log import Appended, LogConfig, SyncPolicy
from kohort.model.errors import ErrorCode, RefusedError
from kohort.testing.faults import FakeDisk

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=60)


@pytest.mark.parametrize("policy", [SyncPolicy.COMMIT, SyncPolicy.NEVER])
def test_appends_are_refused_while_it_is_full_and_go_on_afterwards(policy: SyncPolicy) -> None:
    for free in range(0, 1_000, 23):
        disk = FakeDisk()
        bench = Bench(disk, config=CONFIG, policy=policy)
        bench.append(batch(b"before"))
        disk.capacity = disk.used() + free
        accepted, refused = [b"before"], 0
        for number in range(20):
            value = b"%d" % number
            (result,) = bench.try_append([append_of(batch(value))])
            if isinstance(result, Appended):
                accepted.append(value)
            else:
                assert isinstance(result, RefusedError)
                assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
                refused += 1
        assert refused > 0
        assert bench.values() == accepted
        disk.capacity = None
        if bench.log.failure is not None:  # a sync had no space for a checkpoint
            bench.log = bench.run(bench.storage.reopen(bench.log.partition))
        bench.append(batch(b"after"))
        disk.crash() if policy is SyncPolicy.COMMIT else disk.kill()
        bench.open()
        assert bench.values() == [*accepted, b"after"]
