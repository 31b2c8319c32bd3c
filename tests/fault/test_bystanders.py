"""One peer sends the largest legal requests of all APIs, again and again: others keep their sessions."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.broker.asking import create  # noqa: E402 (needs the path above)
from tests.broker.grouping import find, heartbeat_request, join_request, sync_request  # noqa: E402 (same)
from tests.broker.raw import Raw  # noqa: E402 (same)
from tests.clients.node import Node  # noqa: E402 (same)
from tests.fault.heavy import heavy_produces  # noqa: E402 (same)
from tests.fault.largest import largest, newest_and_oldest  # noqa: E402 (same)

from kohort.broker.handlers import SERVED  # noqa: E402 (same)
from kohort.codec.schema import Message  # noqa: E402 (same)
from kohort.model.errors import ErrorCode  # noqa: E402 (same)
from kohort.wire.apis import ApiKey  # noqa: E402 (same)

SESSION_MS = 6_000
IN_GROUPS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
PRODUCE_VERSION = 12
MEMBER_ID_SINCE = 4  # a JoinGroup without a member id is refused from this version on


class Attack(NamedTuple):
    """What one peer sends: requests of all APIs with their versions."""

    versions: tuple[tuple[ApiKey, int], ...]
    most: int | None  # elements of an array; None: as many as are legal

    def run(self, bootstrap: str, topic_id: bytes, name: str) -> int:
        """Send everything; how many requests were answered."""
        answered = 0
        with Raw(bootstrap, name) as raw:
            for version, request in self._requests(topic_id):
                raw.send(request, version)
                answered += 1
            for version, join in self._of(ApiKey.JOIN_GROUP, topic_id):
                self._join(raw, f"{name}-{answered}", join, version, topic_id)
                answered += 1
        return answered

    def _requests(self, topic_id: bytes) -> Iterator[tuple[int, Message]]:
        for key, _ in self.versions:
            if key not in IN_GROUPS:
                yield from self._of(key, topic_id)
        for request in heavy_produces("t"):
            yield PRODUCE_VERSION, request

    def _of(self, key: ApiKey, topic_id: bytes) -> Iterator[tuple[int, Any]]:
        for version in (version for each, version in self.versions if each is key):
            for _, request in largest(key, version, topic_id, self.most):
                yield version, request

    def _join(self, raw: Raw, group: str, join: Any, version: int, topic_id: bytes) -> None:  # noqa: ANN401 - a JoinGroupRequest
        """Become the leader of a group of its own, and give out assignments of every size."""
        join.group_id, join.member_id, join.group_instance_id = group, "", None
        joined = raw.send(join, version)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            assert version >= MEMBER_ID_SINCE
            join.member_id = joined.member_id
            joined = raw.send(join, version)
        is_refused = joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # one name again and again
        assert is_refused or joined.error_code == 0, joined
        if is_refused:
            return
        for sync_version, sync in self._of(ApiKey.SYNC_GROUP, topic_id):
            sync.group_id, sync.member_id, sync.group_instance_id = group, joined.member_id, None
            sync.generation_id = joined.generation_id
            sync.protocol_type, sync.protocol_name = join.protocol_type, joined.protocol_name
            assert raw.send(sync, sync_version).error_code == 0


EVERYTHING = Attack(tuple(newest_and_oldest()), None)
NEWEST = Attack(tuple((api.key, api.newest) for api in SERVED), 1_000)


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


def beat(bootstrap: str, over: threading.Event, every_s: float) -> list[int]:
    """The codes a member gets that is heard several times in a session; the last one after the attack."""
    with Raw(bootstrap, "member") as raw:
        joined = raw.send(join_request(session_ms=SESSION_MS, group="bystanders"), 3)
        member, generation = joined.member_id, joined.generation_id
        raw.send(sync_request(member, generation, {member: b""}, group="bystanders"), 3)
        codes = []
        is_over = False
        while not is_over:
            is_over = over.wait(every_s)
            beat = heartbeat_request(member, generation, group="bystanders")
            codes.append(raw.send(beat, 4).error_code)
        return codes
