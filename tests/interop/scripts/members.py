"""Members of classic groups for scripts: joining, syncing, and whole groups in a given state."""

from dataclasses import dataclass
from typing import Final

from tests.interop.scripts.exchange import Answer, AnyMessage, Exchange, Reply
from tests.interop.scripts.setting import ready_group, settle

from kohort.codec.compiled import encode
from kohort.model.errors import ErrorCode
from kohort.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN, SYNC, BEAT, LEAVE = 9, 5, 4, 5  # the newest versions
SESSION: Final = 30_000
REBALANCE: Final = 20_000
Protocols = dict[str, bytes]


def subscription(*topics: str) -> bytes:
    """What a consumer says it wants, version 0 with its version in front."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


RANGE: Final[Protocols] = {"range": subscription("script.topic")}


@dataclass(slots=True)
class Member:
    """One member: its name is also its connection and its client id."""

    x: Exchange
    group: str
    name: str
    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    session: int = SESSION
    rebalance: int = REBALANCE

    def join_request(self, protocols: Protocols = RANGE, kind: str = "consumer") -> JoinGroupRequest:
        listed = [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()]
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session,
            rebalance_timeout_ms=self.rebalance,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=kind,
            protocols=listed,
            reason=None,
        )

    def start_join(self, protocols: Protocols = RANGE, version: int = JOIN) -> None:
        """Ask to join; ``joined`` takes the answer."""
        self.x.post(self.join_request(protocols), version, self.name, self.name)

    def joined(self) -> Answer:
        """The answer to a join, remembered if it was good or carried an id."""
        answer = self.x.take(self.name)
        if isinstance(answer, Reply):
            reply: AnyMessage = answer.message
            if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = reply.member_id
                self.generation = reply.generation_id
        return answer

    def join(self, protocols: Protocols = RANGE, version: int = JOIN) -> Answer:
        """Join and wait for the answer."""
        self.start_join(protocols, version)
        return self.joined()

    def get_id(self) -> Answer:
        """The first of the two joins of a dynamic member: an id, and nothing else."""
        answer = self.join()
        assert self.member_id, f"{self.name}: no member id in {answer}"
        return answer

    def sync_request(self, assignments: dict[str, bytes] | None = None) -> SyncGroupRequest:
        given = [
            SyncGroupRequestAssignment(member_id=member, assignment=data)
            for member, data in (assignments or {}).items()
        ]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        )

    def start_sync(self, assignments: dict[str, bytes] | None = None) -> None:
        self.x.post(self.sync_request(assignments), SYNC, self.name, self.name)

    def synced(self) -> Answer:
        return self.x.take(self.name)

    def sync(self, assignments: dict[str, bytes] | None = None) -> Answer:
        self.start_sync(assignments)
        return self.synced()

    def beat(self) -> Answer:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return self.x.get(request, BEAT, f"{self.name} beats", self.name)

    def beat_until(self, code: ErrorCode) -> None:
        """Heartbeat until the group has got as far as this."""

        def told() -> bool:
            answer = self.beat()
            assert isinstance(answer, Reply)
            reply: AnyMessage = answer.message
            return bool(reply.error_code == code)

        settle(f"{self.name}: {code.name}", told)

    def leave(self) -> Answer:
        who = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group, members=[who])
        return self.x.get(request, LEAVE, f"{self.name} leaves", self.name)


def new_member(x: Exchange, group: str, name: str, **fields: int | str) -> Member:
    """A member that has not joined yet; its coordinator is ready."""
    ready_group(x, group)
    return Member(x, group, name, **fields)  # type: ignore[arg-type] # only known field names are passed


def stable_pair(x: Exchange, group: str, rebalance: int = REBALANCE) -> tuple[Member, Member]:
    """A group of two in generation 2; the first one leads. Everything before is not part of the script."""
    lead = new_member(x, group, "lead", rebalance=rebalance)
    follow = Member(x, group, "follow", rebalance=rebalance)
    lead.get_id()
    lead.join()
    lead.sync({lead.member_id: b"alone"})
    follow.get_id()
    follow.start_join()
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    lead.join()
    follow.joined()
    follow.start_sync()
    lead.sync({lead.member_id: b"one", follow.member_id: b"two"})
    follow.synced()
    return lead, follow


def stable_one(x: Exchange, group: str, **fields: int | str) -> Member:
    """A group of one in generation 1."""
    only = new_member(x, group, "only", **fields)
    if only.instance is None:
        only.get_id()
    only.join()
    only.sync({only.member_id: b"everything"})
    return only
