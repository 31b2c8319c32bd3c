"""All at once that makes a broker keep memory for strangers: it keeps its bounds, and bystanders work."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.broker.asking import append, batch
from tests.broker.raw import Raw
from tests.clients.node import Node
from tests.fault.bystanders import bystanders
from tests.fault.strangers import BUDGETS, MB, STRANGERS, prepare

OTHERWISE = 120 * MB  # one large request in work; what may be too much for a moment; freed and not returned
CONFIGS = {**BUDGETS, "kohort.stalled.ms": 1_000, "group.initial.rebalance.delay.ms": 0}


def memory_of(pid: int, what: str) -> int:
    """A line of ``/proc/PID/status``: VmRSS is what a process has now, VmHWM the most it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


@pytest.mark.slow
def test_memory_stays_within_its_bounds_and_bystanders_are_served(tmp_path: Path) -> None:
    with Node(tmp_path, CONFIGS) as node, ExitStack() as stack:
        prepare(node.bootstrap)
        before = memory_of(node.pid, "VmRSS")
        with bystanders(node.bootstrap):
            threads = [threading.Thread(target=do, args=(node.bootstrap, stack)) for do in STRANGERS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        grown = memory_of(node.pid, "VmHWM") - before
        assert grown < sum(BUDGETS.values()) + OTHERWISE, f"{grown / MB:.0f} MB"
        stack.close()
        with Raw(node.bootstrap) as late:
            assert append(late, "calm", batch("x" * MB)) > 0
        assert "queued.max.request.bytes" in node.said()
