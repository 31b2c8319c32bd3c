"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on the wire: what each version shows and where errors go.

What Kafka answers in every version is recorded: ``tests/interop/scripts/joining.py`` and ``syncing.py``.
"""

import pytest
from tests.broker.asking import eventually
from tests.broker.conftest import Connect
from tests.broker.grouping import (
    GROUP,
    alone,
    find,
    heartbeat_request,
    join_request,
)
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_groups import DescribeGroupsRequest

pytestmark = pytest.mark.usefixtures("both_paths")


@pytest.fixture
def raw(raw: Raw) -> Raw:
    find(raw)
    return raw


def wait_for_rebalance(raw: Raw, member: str) -> None:
    """Until a member of generation 1 is told to join again."""
    beat = heartbeat_request(member, 1)
    eventually(lambda: raw.send(beat, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS)


def test_the_bounds_are_settings_of_the_broker() -> None:
    configs = {
        "group.min.session.timeout.ms": 100,
        "group.max.session.timeout.ms": 200,
        "group.initial.rebalance.delay.ms": 0,
    }
    with Broker(configs=configs) as broker, Raw(broker.bootstrap) as raw:
        find(raw)
        codes = [raw.send(join_request(session_ms=ms), 3).error_code for ms in (99, 100, 200, 201)]
        assert codes == [26, 0, 0, 26]


def test_a_full_group_turns_members_away() -> None:
    configs = {"group.max.size": 1, "group.initial.rebalance.delay.ms": 0}
    with Broker(configs=configs) as broker, Raw(broker.bootstrap) as raw, Raw(broker.bootstrap) as other:
        alone(raw)
        reply = other.send(join_request(), 3)
        assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_members_of_all_groups_together_have_a_bound() -> None:
    configs = {"kohort.group.members.max.bytes": 10_000, "group.initial.rebalance.delay.ms": 0}
    with Broker(configs=configs) as broker, Raw(broker.bootstrap) as raw:
        member, _ = alone(raw)
        codes = [raw.send(join_request(group=str(n)), 5).error_code for n in range(20)]
        handed_out = codes.count(ErrorCode.MEMBER_ID_REQUIRED)
        assert 3 < handed_out < 20
        assert codes[handed_out:] == [ErrorCode.GROUP_MAX_SIZE_REACHED] * (20 - handed_out)
        assert raw.send(join_request(member), 5).error_code == 0  # who is in stays in


def test_the_initial_delay_holds_the_first_join_back() -> None:
    with (
        Broker(virtual_time=True) as broker,
        Raw(broker.bootstrap) as raw,
        Raw(broker.bootstrap) as other,
    ):
        find(raw)
        raw.post(join_request(), 3)
        asking = DescribeGroupsRequest(groups=[GROUP])
        eventually(lambda: other.send(asking, 5).groups[0].group_state == "PreparingRebalance")
        broker.advance(2_999)
        assert find(other).error_code == 0
        assert not raw.has_something()
        broker.advance(1)
        assert raw.take().generation_id == 1


def test_a_waiting_join_stops_only_its_own_connection(raw: Raw, connect: Connect) -> None:
    member, _ = alone(raw)
    other = connect()
    other.post(join_request(), 3)
    other.post(heartbeat_request("x", 1), 4)  # behind the join
    wait_for_rebalance(raw, member)
    assert not other.has_something()
    assert raw.send(join_request(member), 3).generation_id == 2
    assert other.take().generation_id == 2
    assert other.take().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_hanging_up_drops_the_wait_and_not_the_member(raw: Raw, connect: Connect) -> None:
    member, _ = alone(raw)
    other = connect()
    other.post(join_request(), 3)
    wait_for_rebalance(raw, member)
    other.close()
    leader = raw.send(join_request(member), 3)
    assert len(leader.members) == 2
