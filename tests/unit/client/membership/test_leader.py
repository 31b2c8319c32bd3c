"""The leader's work: metadata of the whole group, the assignor, what is checked."""

from collections.abc import Collection, Mapping

import pytest
from tests.unit.client.membership.stage import Stage, member, topics, tps, wish

from kohort.assign.assignor import ClusterView, RebalanceProtocol, Subscriptions
from kohort.assign.cooperative import UnsafeAssignmentError
from kohort.assign.protocol import Assignment, decode_assignment
from kohort.client.errors import IllegalMemberStateError
from kohort.client.membership.state import ClassicMemberState
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.model.ids import Generation, MemberId, TopicName
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest


class Fixed:
    """An assignor that always says the same."""

    name = "fixed"

    def __init__(self, protocol: RebalanceProtocol = RebalanceProtocol.EAGER, **shares: str) -> None:
        self.supported_protocols = (protocol,)
        self._shares = {MemberId(each): Assignment(tps(names)) for each, names in shares.items()}

    def subscription_user_data(self, topics: Collection[TopicName]) -> None:
        return None

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Mapping[MemberId, Assignment]:
        return self._shares

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        """Nothing to remember."""


def given(stage: Stage) -> dict[str, str]:
    """What the leader hands in with SyncGroup."""
    assignments = stage.requests(SyncGroupRequest)[-1].assignments
    return {
        each.member_id: " ".join(map(str, decode_assignment(each.assignment).partitions))
        for each in assignments
    }


def leads(stage: Stage, *others: tuple[str, bytes], mine: bytes | None = None, **fields: bool) -> None:
    """Answer JoinGroup: this member leads."""
    members = [member("m", mine or wish("t")), *(member(*other) for other in others)]
    stage.answer_join(leader="m", members=members, **fields)


def test_the_leader_assigns_for_everybody() -> None:
    stage = Stage().found()
    stage.metadata(t=3)
    leads(stage, ("n", wish("t")))
    assert given(stage) == {"m": "t-0 t-1", "n": "t-2"}
    assert stage.membership.is_leader
    stage.answer_sync("t-0 t-1")
    assert stage.poll()


def test_a_returning_static_leader_assigns_nothing_but_watches() -> None:
    """T26 skipAssignment: SyncGroup without assignments; a later partition increase makes it rejoin."""
    stage = Stage().found()
    stage.metadata(t=2)
    leads(stage, skip_assignment=True)
    assert stage.requests(SyncGroupRequest)[-1].assignments == []
    stage.answer_sync("t-0 t-1")
    assert stage.poll()
    stage.metadata(t=3)
    assert not stage.poll()
    assert "metadata" in (stage.requests(JoinGroupRequest)[-1].reason or "")


def test_subscriptions_of_all_versions_are_understood() -> None:
    """T27 Leader decodes member Subscriptions v0-v3 and version 9 with trailing bytes."""
    v0 = bytes.fromhex("0000 00000001 0001 74 ffffffff")
    v1 = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")
    v2 = bytes.fromhex("0002 00000001 0001 74 ffffffff 00000000 00000005")
    v3 = bytes.fromhex("0003 00000001 0001 74 ffffffff 00000000 00000005 0002 7231")
    v9 = bytes.fromhex("0009 00000001 0001 74 ffffffff 00000000 00000005 0002 7231 abcdef")
    stage = Stage().found()
    stage.metadata(t=5)
    leads(stage, ("n", v1), ("o", v2), ("p", v3), ("q", v9), mine=v0)
    assert given(stage) == {"m": "t-0", "n": "t-1", "o": "t-2", "p": "t-3", "q": "t-4"}


def test_heartbeats_go_on_while_the_leader_waits_for_metadata() -> None:
    """T28 Leader needs metadata for topics it does not subscribe to: heartbeats continue while it waits."""
    stage = Stage().found()
    stage.metadata(t=1)
    leads(stage, ("n", wish("u")))
    assert not stage.requests(SyncGroupRequest)
    assert stage.refreshes()[-1] == topics("t", "u")
    stage.sleep(3_000)
    assert len(stage.requests(HeartbeatRequest)) == 1
    stage.metadata(t=1, u=1)
    assert given(stage) == {"m": "t-0", "n": "u-0"}


def test_a_leader_that_lost_its_generation_gives_up_waiting() -> None:
    stage = Stage().found()
    leads(stage)
    stage.sleep(3_000)
    stage.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""
    stage.metadata(t=1)
    assert not stage.requests(SyncGroupRequest)


def test_a_leader_without_a_coordinator_cannot_hand_in() -> None:
    stage = Stage().found()
    leads(stage)
    stage.sleep(3_000)
    stage.beat(ErrorCode.NOT_COORDINATOR)
    stage.metadata(t=1)
    assert not stage.requests(SyncGroupRequest)
    assert stage.membership.state is ClassicMemberState.COMPLETING_REBALANCE
    stage.poll()
    stage.find()
    stage.sleep(100)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == "m"


def test_a_cooperative_assignor_may_not_move_what_is_owned() -> None:
    """T29 Custom cooperative assignor that moves an owned TP directly: refused."""
    unsafe = Fixed(RebalanceProtocol.COOPERATIVE, m="t-0", n="")
    stage = Stage(assignors=[unsafe]).found()
    stage.metadata(t=1)
    leads(stage, ("n", wish("t", owned="t-0")))
    with pytest.raises(UnsafeAssignmentError, match="t-0"):
        stage.poll()
    assert not stage.requests(SyncGroupRequest)


def test_topics_a_custom_assignor_adds_are_watched_too() -> None:
    stage = Stage(assignors=[Fixed(m="t-0", n="extra-0")]).found()
    stage.metadata(t=1)
    leads(stage, ("n", wish("t")))
    assert not stage.requests(SyncGroupRequest), "metadata of the extra topic comes first"
    assert stage.refreshes()[-1] == topics("t", "extra")
    stage.metadata(t=1, extra=1)
    assert given(stage) == {"m": "t-0", "n": "extra-0"}
    stage.answer_sync("t-0")
    stage.poll()
    stage.metadata(t=1, extra=2)
    assert not stage.poll(), "the leader joins again"


def test_an_assignor_that_raises_fails_the_poll() -> None:
    class Broken(Fixed):
        def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Mapping[MemberId, Assignment]:
            raise ZeroDivisionError("oh")

    stage = Stage(assignors=[Broken()]).found()
    stage.metadata(t=1)
    leads(stage)
    with pytest.raises(IllegalMemberStateError, match="oh") as raised:
        stage.poll()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_unreadable_metadata_of_a_member_fails_the_poll() -> None:
    stage = Stage().found()
    stage.metadata(t=1)
    leads(stage, ("n", b"\x00"))
    with pytest.raises(ProtocolError):
        stage.poll()


def test_a_leader_that_cannot_assign_says_so() -> None:
    stage = Stage().found()
    stage.metadata(t=1)
    leads(stage, protocol_name="unheard")  # type: ignore[arg-type]  # any field of the response
    with pytest.raises(IllegalMemberStateError, match="unheard"):
        stage.poll()
