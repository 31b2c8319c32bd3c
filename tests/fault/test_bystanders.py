"""One peer sends the largest legal requests of all APIs, again and again: others keep their sessions."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.broker.asking import create
from tests.broker.grouping import find
from tests.broker.raw import Raw
from tests.clients.node import Node
from tests.fault.attack import EVERYTHING, NEWEST, Attack
from tests.fault.bystanders import beat


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_member_with_a_short_session_is_not_evicted_by_what_a_peer_sends(tmp_path: Path) -> None:
    survive(tmp_path, EVERYTHING, attackers=2, beats_every_s=2.0)


@pytest.mark.slow
def test_a_member_with_a_short_session_is_not_evicted_by_the_newest_requests_of_a_peer(
    tmp_path: Path,
) -> None:
    survive(tmp_path, NEWEST, attackers=1, beats_every_s=0.5)


def survive(data: Path, attack: Attack, *, attackers: int, beats_every_s: float) -> None:
    """A member beats while the attack runs, and all its heartbeats are answered without an error."""
    over = threading.Event()
    with Node(data, {"group.initial.rebalance.delay.ms": 0}) as node, ThreadPoolExecutor(3) as pool:
        with Raw(node.bootstrap) as raw:
            topic_id = create(raw, "t", 2)
            find(raw)
        member = pool.submit(beat, node.bootstrap, over, beats_every_s)
        running = [
            pool.submit(attack.run, node.bootstrap, topic_id, f"attacker-{number}")
            for number in range(attackers)
        ]
        try:
            assert all(attacker.result() > len(attack.versions) for attacker in running)
        finally:
            over.set()
        assert set(member.result()) == {0}
