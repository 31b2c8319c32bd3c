"""A client of either protocol in a simulated group: what it knows, and what it learns from replies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kohort.assign.protocol import decode_assignment
from kohort.groups.commands import NO_MEMBER
from kohort.groups.consumer.assignment import JOINING
from kohort.groups.replies import (
    CommitReply,
    ConsumerHeartbeatReply,
    HeartbeatReply,
    JoinReply,
    ReplyBody,
    SyncReply,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId, MemberId

NOT_A_MEMBER = -9
_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(slots=True)
class MixedClient:
    """What a client knows: its epoch, what it owns, and what it shall own."""

    name: str
    is_classic: bool = False
    is_eager: bool = False  # a classic one that owns nothing when it joins
    instance_id: InstanceId | None = None
    member_id: MemberId = NO_MEMBER
    epoch: int = NOT_A_MEMBER
    owned: frozenset[int] = frozenset()
    target: frozenset[int] | None = None
    must_sync: bool = False  # it has joined, and belongs to no generation yet: it does not commit
    must_join: bool = False
    must_say_everything: bool = False  # the last heartbeat failed: the next one is a full one
    is_waiting: bool = False
    positions: dict[int, int] = field(default_factory=dict)  # of what it owns: the next offset to read
    lost: frozenset[int] = frozenset()  # what a downgrade took from it, until it hears so from a SyncGroup
    leads: tuple[MemberId, ...] = ()  # the members of a classic group, if it has to assign

    @property
    def protocol(self) -> str:
        return "range" if self.is_eager else "cooperative-sticky"

    def take(self, committed: Callable[[int], int]) -> None:
        """Own what it shall, and read new partitions from their committed offsets on."""
        assert self.target is not None
        self.owned = self.target
        self.positions = {n: self.positions.get(n, committed(n)) for n in sorted(self.owned)}

    def give_up_everything(self) -> None:
        self.owned, self.target, self.positions, self.lost = frozenset(), None, {}, frozenset()

    def lose_everything(self) -> None:
        self.give_up_everything()
        self.epoch, self.leads = NOT_A_MEMBER, ()
        self.must_sync = self.must_join = self.must_say_everything = self.is_waiting = False


def acknowledged(client: MixedClient, reply: CommitReply) -> Iterator[tuple[int, int]]:
    """The partitions whose commits succeeded, and the offsets that are committed now."""
    return (
        (row.partition, client.positions[row.partition])
        for row in reply.rows
        if not row.error and row.partition in client.positions
    )


def learn(client: MixedClient, reply: ReplyBody) -> None:
    """React as clients do."""
    match reply:
        case HeartbeatReply() | ConsumerHeartbeatReply() | JoinReply() | SyncReply() if reply.error in _AGAIN:
            client.must_say_everything = True
            if isinstance(reply, JoinReply) and client.epoch != NOT_A_MEMBER:
                client.must_join = True
        case ConsumerHeartbeatReply():
            _learn_heartbeat(client, reply)
        case JoinReply(error=ErrorCode.NONE):
            client.member_id, client.epoch = reply.member_id, reply.generation
            client.must_sync, client.must_join = True, False
            client.leads = tuple(member.member_id for member in reply.members)
        case HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS):
            client.must_join = True
        case JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS):  # it waited while the group was upgraded
            client.member_id, client.must_join = reply.member_id, client.epoch != NOT_A_MEMBER
        case SyncReply():
            _learn_assignment(client, reply)
        case JoinReply() | HeartbeatReply() if reply.error:
            client.lose_everything()
            client.member_id = NO_MEMBER
        case _:
            pass


def _learn_heartbeat(client: MixedClient, reply: ConsumerHeartbeatReply) -> None:
    if reply.error:
        client.lose_everything()
    elif reply.member_epoch > JOINING:
        client.epoch, client.must_say_everything = reply.member_epoch, False
        if reply.assignment is not None:
            client.target = frozenset(number for _, numbers in reply.assignment for number in numbers)


def _learn_assignment(client: MixedClient, reply: SyncReply) -> None:
    client.must_sync = client.must_join = reply.error is ErrorCode.REBALANCE_IN_PROGRESS
    if reply.error is ErrorCode.NONE:
        client.target = frozenset(number for _, number in decode_assignment(reply.assignment).partitions)
        client.lost = frozenset()
    elif reply.error is not ErrorCode.REBALANCE_IN_PROGRESS:
        client.lose_everything()
        client.member_id = NO_MEMBER
