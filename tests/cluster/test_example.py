"""``make cluster`` as a person uses it: a node dies, comes back, and the work goes on."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from examples import cluster

pytestmark = pytest.mark.slow


def test_a_node_is_killed_and_started_while_the_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("pause 7\nnonsense\n"))
    assert cluster.main(["--nodes", "2", "--commands", "kill 2;start 2"]) == 0
    shown = capsys.readouterr().out
    assert "start 2: done" in shown
    assert "pause 7: there is no such node" in shown
    assert "unknown command 'nonsense'" in shown
    found = re.search(r"acknowledged ([\d,]+), consumed", shown)
    assert found is not None
    assert int(found[1].replace(",", "")) > 0


@pytest.mark.parametrize(("is_alive", "shown"), [(True, "killed, lease lasts"), (False, "dead")])
def test_a_killed_node_is_dead_when_its_lease_is_over(is_alive: bool, shown: str) -> None:
    nodes: Any = SimpleNamespace(node=lambda _number: SimpleNamespace(is_running=False))
    found: Any = SimpleNamespace(nodes=[SimpleNamespace(node_id=2, is_alive=is_alive)])
    stage = cluster.ClusterStage(nodes, "postgresql://host/database", nodes)
    assert stage._state(2, found).plain == shown
