"""Generated members of consumer groups, reconciled by Kafka's own class and by ours."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.interop.conftest import need
from tests.interop.test_java_assignors import GENERATE, by_java
from tests.property.groups.consumer import members
from tools.peers.pins import Peer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PROGRAM = Path(members.__file__).with_name("JavaReconciliation.java")
MEMBERS = 2_000


def test_any_member_takes_the_step_that_kafkas_coordinator_takes(tmp_path: Path) -> None:
    need(Peer.KAFKA)
    lines: list[str] = []

    @settings(derandomize=True, deadline=None, max_examples=MEMBERS, database=None, phases=GENERATE)
    @given(case=members.cases())
    def collect(case: members.Case) -> None:
        lines.append(members.written(case))

    collect()
    assert len(lines) == MEMBERS
    for line, answer in zip(lines, by_java(lines, tmp_path, PROGRAM), strict=True):
        assert members.shown(members.read(line).reconciled()) == answer, line
