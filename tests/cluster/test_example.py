"""``make cluster`` as a person uses it: a node dies, comes back, and the work goes on."""

import io
import re

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
