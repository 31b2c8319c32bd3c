"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on the wire: what each version shows and where errors go."""

import pytest
from tests.broker.asking import eventually
from tests.broker.conftest import Connect
from tests.broker.grouping import (
    GROUP,
    alone,
    find,
    heartbeat_request,
    join_request,
    subscription,
    sync_request,
)
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

JOIN, SYNC, HEARTBEAT, LEAVE = range(10), range(6), range(5), range(6)


@pytest.fixture
def raw(raw: Raw) -> Raw:
    find(raw)
    return raw


def wait_for_rebalance(raw: Raw, member: str) -> None:
    """Until a member of generation 1 is told to join again."""
    beat = heartbeat_request(member, 1)
    eventually(lambda: raw.send(beat, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS)


# JoinGroup


@pytest.mark.parametrize("version", JOIN)
def test_a_lone_member_leads_and_sees_itself(raw: Raw, version: int) -> None:
    joined = raw.send(join_request(), version)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = raw.send(join_request(joined.member_id), version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id != ""
    (member,) = joined.members
    assert (member.member_id, member.metadata) == (joined.member_id, subscription("t"))
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.skip_assignment is False


@pytest.mark.parametrize("version", range(4))
def test_before_v4_a_member_gets_its_id_and_is_in(raw: Raw, version: int) -> None:
    assert raw.send(join_request(), version).error_code == 0


@pytest.mark.parametrize("version", range(4, 10))
def test_from_v4_on_a_member_is_first_given_an_id(raw: Raw, version: int) -> None:
    reply = raw.send(join_request(), version)
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("raw-")
    assert (reply.generation_id, reply.leader, reply.members) == (-1, "", [])


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_needs_no_second_step(raw: Raw, version: int) -> None:
    reply = raw.send(join_request(instance="one"), version)
    assert reply.error_code == 0
    assert [member.group_instance_id for member in reply.members] == ["one"]


@pytest.mark.parametrize("version", JOIN)
@pytest.mark.parametrize(
    ("request_of", "code", "echoed"),
    [
        (join_request("me", group=""), ErrorCode.INVALID_GROUP_ID, "me"),
        (join_request("me", session_ms=5_999), ErrorCode.INVALID_SESSION_TIMEOUT, "me"),
        (join_request("me", session_ms=1_800_001), ErrorCode.INVALID_SESSION_TIMEOUT, "me"),
        (join_request("me"), ErrorCode.UNKNOWN_MEMBER_ID, "me"),
        (join_request(protocols=()), ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
        (join_request(kind=""), ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    ],
)
def test_an_error_has_no_generation_and_a_protocol_name_as_its_version_wants(
    raw: Raw, version: int, request_of: Reply, code: int, echoed: str
) -> None:
    reply = raw.send(request_of, version)
    assert (reply.error_code, reply.member_id) == (code, echoed)
    assert (reply.generation_id, reply.leader, reply.members) == (-1, "", [])
    assert reply.protocol_name == (None if version >= 7 else "")
    assert reply.protocol_type is None


@pytest.mark.parametrize("session", [6_000, 1_800_000])
def test_both_bounds_of_the_session_timeout_are_legal(raw: Raw, session: int) -> None:
    assert raw.send(join_request(session_ms=session), 3).error_code == 0


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


def test_only_the_leader_sees_the_members(raw: Raw, connect: Connect) -> None:
    member, _ = alone(raw)
    other = connect()
    other.post(join_request(), 3)
    wait_for_rebalance(raw, member)
    leader = raw.send(join_request(member), 3)
    follower = other.take()
    assert (leader.generation_id, follower.generation_id) == (2, 2)
    assert {each.member_id for each in leader.members} == {member, follower.member_id}
    assert (follower.leader, follower.members) == (member, [])


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


# SyncGroup


@pytest.mark.parametrize("version", SYNC)
def test_a_sync_brings_the_assignment_back(raw: Raw, version: int) -> None:
    joined = raw.send(join_request(), 3)
    request = sync_request(joined.member_id, 1, {joined.member_id: b"mine"})
    reply = raw.send(request, version)
    assert (reply.error_code, reply.assignment) == (0, b"mine")
    expected = ("consumer", "range") if version >= 5 else (None, None)
    assert (reply.protocol_type, reply.protocol_name) == expected


@pytest.mark.parametrize("version", SYNC)
def test_a_member_without_an_assignment_gets_no_bytes(raw: Raw, version: int) -> None:
    joined = raw.send(join_request(), 3)
    reply = raw.send(sync_request(joined.member_id, 1), version)
    assert (reply.error_code, reply.assignment) == (0, b"")


@pytest.mark.parametrize("version", SYNC)
@pytest.mark.parametrize(
    ("member", "generation", "group", "code"),
    [
        (None, 9, GROUP, ErrorCode.ILLEGAL_GENERATION),
        ("x", 1, GROUP, ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", 1, "none", ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", 1, "", ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_sync_that_does_not_fit_is_refused_without_an_assignment(
    raw: Raw, version: int, member: str | None, generation: int, group: str, code: int
) -> None:
    known, _ = alone(raw)
    find(raw, "none")
    reply = raw.send(sync_request(known if member is None else member, generation, group=group), version)
    assert (reply.error_code, reply.assignment) == (code, b"")


@pytest.mark.parametrize(("kind", "name"), [("connect", "range"), ("consumer", "x"), (None, None)])
def test_from_v5_on_a_sync_must_name_the_protocol_of_the_group(
    raw: Raw, kind: str | None, name: str | None
) -> None:
    member, generation = alone(raw)
    request = sync_request(member, generation)
    request.protocol_type, request.protocol_name = kind, name
    assert raw.send(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert raw.send(request, 4).error_code == 0


# Heartbeat


@pytest.mark.parametrize("version", HEARTBEAT)
def test_a_heartbeat_tells_what_is_wrong(raw: Raw, version: int) -> None:
    member, generation = alone(raw)

    def beat(who: str, generation: int, group: str = GROUP) -> int:
        code: int = raw.send(heartbeat_request(who, generation, group=group), version).error_code
        return code

    assert beat(member, generation) == 0
    assert beat(member, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert beat("x", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("x", generation, "none") == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("x", generation, "") == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [3, 4])
def test_a_heartbeat_of_another_member_under_an_instance_id_is_fenced(raw: Raw, version: int) -> None:
    joined = raw.send(join_request(instance="one"), 5)
    request = heartbeat_request(joined.member_id, 1)
    request.group_instance_id = "one"
    assert raw.send(request, version).error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    request.member_id = "another"
    assert raw.send(request, version).error_code == ErrorCode.FENCED_INSTANCE_ID


# LeaveGroup


@pytest.mark.parametrize("version", range(3))
def test_before_v3_one_member_leaves_and_its_error_is_the_whole_reply(raw: Raw, version: int) -> None:
    member, _ = alone(raw)
    unknown = raw.send(LeaveGroupRequest(group_id=GROUP, member_id="x"), version)
    assert (unknown.error_code, unknown.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert raw.send(LeaveGroupRequest(group_id=GROUP, member_id=member), version).error_code == 0
    assert raw.send(heartbeat_request(member, 1), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_from_v3_on_each_member_has_its_own_code(raw: Raw, version: int) -> None:
    member, _ = alone(raw)
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id="x"),
            MemberIdentity(member_id=member, reason="enough"),
            MemberIdentity(member_id="", group_instance_id="ghost"),
        ],
    )
    reply = raw.send(request, version)
    assert reply.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in reply.members] == [
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (member, None, 0),
        ("", "ghost", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@pytest.mark.parametrize("version", range(3, 6))
def test_an_administrator_removes_a_static_member_by_its_instance(raw: Raw, version: int) -> None:
    raw.send(join_request(instance="one"), 5)
    leaving = [MemberIdentity(member_id="", group_instance_id="one")]
    reply = raw.send(LeaveGroupRequest(group_id=GROUP, members=leaving), version)
    assert [(each.member_id, each.error_code) for each in reply.members] == [("", 0)]


@pytest.mark.parametrize("version", LEAVE)
def test_leaving_a_group_that_is_not_there(raw: Raw, version: int) -> None:
    find(raw, "none")
    request = LeaveGroupRequest(group_id="none", member_id="x", members=[MemberIdentity(member_id="x")])
    reply = raw.send(request, version)
    if version < 3:
        assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert (reply.error_code, reply.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", LEAVE)
def test_an_empty_group_id_is_told_at_the_top(raw: Raw, version: int) -> None:
    request = LeaveGroupRequest(group_id="", member_id="x", members=[MemberIdentity(member_id="x")])
    reply = raw.send(request, version)
    assert (reply.error_code, reply.members) == (ErrorCode.INVALID_GROUP_ID, [])


def test_nobody_may_leave(raw: Raw) -> None:
    reply = raw.send(LeaveGroupRequest(group_id=GROUP, members=[]), 5)
    assert (reply.error_code, reply.members) == (0, [])
