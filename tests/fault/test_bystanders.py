"""One peer sends the largest legal requests of all APIs, again and again: others keep their sessions."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.broker.asking import create  # noqa: E402 (needs the path above)
from tests.broker.grouping import find, heartbeat_request, join_request, sync_request  # noqa: E402 (same)
from tests.broker.raw import Raw  # noqa: E402 (same)
from tests.clients.node import Node  # noqa: E402 (same)
from tests.fault.largest import largest, newest_and_oldest  # noqa: E402 (same)

from kohort.codec.compiled import encode  # noqa: E402 (same)
from kohort.wire.apis import ApiKey  # noqa: E402 (same)

SESSION_MS = 6_000
BEATS_EVERY_S = 2.0
# They wait for other members, or make what the broker keeps.
LEFT_OUT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.PRODUCE)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_member_with_a_short_session_is_not_evicted_by_what_a_peer_sends(tmp_path: Path) -> None:
    over = threading.Event()
    with Node(tmp_path, {"group.initial.rebalance.delay.ms": 0}) as node:
        with Raw(node.bootstrap) as raw:
            topic_id = create(raw, "t", 2)
            find(raw)
        bodies = [
            (key, version, encode(request, version))
            for key, version in newest_and_oldest()
            if key not in LEFT_OUT
            for _, request in largest(key, version, topic_id)
        ]
        with ThreadPoolExecutor(3) as pool:
            member = pool.submit(beat, node.bootstrap, over)
            attackers = [pool.submit(attack, node.bootstrap, bodies) for _ in range(2)]
            try:
                assert [attacker.result() for attacker in attackers] == [len(bodies)] * 2
            finally:
                over.set()
            assert set(member.result()) == {0}


def attack(bootstrap: str, bodies: list[tuple[ApiKey, int, bytes]]) -> int:
    """How many of the requests were answered."""
    with Raw(bootstrap, "attacker") as raw:
        for key, version, body in bodies:
            raw.send_bytes(raw.frame_of(key, version, body))
            raw.take_frame()
    return len(bodies)


def beat(bootstrap: str, over: threading.Event) -> list[int]:
    """The codes a member gets that is heard three times in a session."""
    with Raw(bootstrap, "member") as raw:
        joined = raw.send(join_request(session_ms=SESSION_MS, group="bystanders"), 3)
        member, generation = joined.member_id, joined.generation_id
        raw.send(sync_request(member, generation, {member: b""}, group="bystanders"), 3)
        codes = []
        while not over.wait(BEATS_EVERY_S):
            beat = heartbeat_request(member, generation, group="bystanders")
            codes.append(raw.send(beat, 4).error_code)
        return codes
