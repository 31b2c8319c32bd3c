"""Scenarios of groups whose members speak either protocol."""

from kohort.assign.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Heartbeat, Join, Protocol, Sync
from kohort.groups.replies import JoinReply, SyncReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, MemberId, Partition, ReplyTo, TopicName
from kohort.model.topics import TopicPartition
from kohort.sim.consumers import ConsumerScenario

T = TopicName("t")


class Mixed(ConsumerScenario):
    """A scenario whose members can also speak the classic protocol."""

    def classic_join(  # the fields of a request
        self,
        member_id: str,
        owned: list[int] | None = None,
        instance: str | None = None,
        protocol_type: str = "consumer",
        protocol: str = "cooperative-sticky",
        version: int = 3,
        times: int = 1,
    ) -> JoinReply:
        held = tuple(TopicPartition(T, Partition(number)) for number in owned or ())
        metadata = encode_subscription(Subscription((T,), owned=held), 1)
        join = Join(
            reply_to=self.next_request(),
            group_id=self.group_id,
            member_id=MemberId(member_id),
            instance_id=None if instance is None else InstanceId(instance),
            protocol_type=protocol_type,
            protocols=(Protocol(protocol, metadata),) * times,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            client_id="classic",
            fresh_id=f"fresh-{self._requests}",
            version=version,
        )
        self.node.handle(join)
        if join.reply_to not in self.node.replies:
            self.node.sleep(3_000)
        reply = self.node.replies[join.reply_to]
        assert isinstance(reply, JoinReply)
        return reply

    def send_join(self, member_id: str, *protocols: str) -> ReplyTo:
        """A classic JoinGroup that may wait."""
        metadata = encode_subscription(Subscription((T,)), 1)
        join = Join(
            reply_to=self.next_request(),
            group_id=self.group_id,
            member_id=MemberId(member_id),
            protocols=tuple(Protocol(each, metadata) for each in protocols or ("cooperative-sticky",)),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            client_id="classic",
            fresh_id=f"{self._requests}",
            version=3,
        )
        self.node.handle(join)
        return join.reply_to

    def send_sync(self, member_id: str, generation: int) -> ReplyTo:
        """A SyncGroup of a follower, which waits for the leader's."""
        sync = Sync(
            reply_to=self.next_request(),
            group_id=self.group_id,
            member_id=MemberId(member_id),
            generation=Generation(generation),
            version=3,
        )
        self.node.handle(sync)
        return sync.reply_to

    def sync(self, member_id: str, generation: int, shares: dict[str, list[int]] | None = None) -> SyncReply:
        reply = self.ask(
            Sync(
                reply_to=self.next_request(),
                group_id=self.group_id,
                member_id=MemberId(member_id),
                generation=Generation(generation),
                assignments=tuple(
                    (MemberId(each), share(numbers)) for each, numbers in (shares or {}).items()
                ),
                version=3,
            )
        )
        assert isinstance(reply, SyncReply)
        return reply

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        beat = Heartbeat(
            reply_to=self.next_request(),
            group_id=self.group_id,
            member_id=MemberId(member_id),
            generation=Generation(generation),
        )
        error = self.ask(beat).error
        assert isinstance(error, ErrorCode)
        return error

    @property
    def phase(self) -> Phase:
        found = self.node.shard.group(self.group_id)
        assert found is not None
        return found.phase


def share(numbers: list[int], user_data: bytes | None = None) -> bytes:
    return encode_assignment(Assignment(tuple(TopicPartition(T, Partition(n)) for n in numbers), user_data))


def partitions(reply: SyncReply) -> list[int]:
    assert reply.error is ErrorCode.NONE
    return sorted(number for _, number in decode_assignment(reply.assignment).partitions)
