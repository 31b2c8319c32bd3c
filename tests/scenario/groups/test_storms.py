"""Everybody joins at once: twice the members are twice the work, counted in calls and not in time."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import (
    NO_MEMBER,
    ConsumerHeartbeat,
    Join,
    Protocol,
    Sync,
    TopicImage,
    TopicsChanged,
)
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ConsumerHeartbeatReply, JoinReply
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.ids import GroupId, Instant, MemberId, Now, ReplyTo, TopicId, TopicName, WallTime

G = GroupId("g")
NOW = Now(Instant(1_000), WallTime(1_700_000_000_000))
SUBSCRIPTION = bytes.fromhex("000000000001 0001 74 ffffffff")


def calls_of(work: Callable[[], None], *, of_builtins: bool = True) -> int:
    """How many calls of functions and turns of generators something takes."""
    counted = ("call", "c_call") if of_builtins else ("call",)
    count = 0

    def tick(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in counted

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


class Storm:
    """A group whose members do everything at the same moment."""

    def __init__(self, members: int) -> None:
        self.shard = Shard(GroupSettings(initial_rebalance_delay_ms=0), Instant(0))
        self.members = members
        self.ids: list[MemberId] = []
        self.requests = 0

    def ask(self, member_id: MemberId = NO_MEMBER) -> Outcome:
        self.requests += 1
        join = Join(
            reply_to=ReplyTo(self.requests),
            group_id=G,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(Protocol("range", SUBSCRIPTION), Protocol("sticky", SUBSCRIPTION)),
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            client_id="c",
            client_host="/h",
            version=5,
            fresh_id=f"{self.requests:08x}",
        )
        return self.shard.handle(join, NOW)

    def get_ids(self) -> None:
        for _ in range(self.members):
            (reply,) = self.ask().replies
            assert isinstance(reply.body, JoinReply)
            self.ids.append(reply.body.member_id)

    def join(self) -> None:
        answered = sum(len(self.ask(member_id).replies) for member_id in self.ids)
        answered += len(self.shard.advance(NOW).replies)
        assert answered == self.members

    def rejoin(self) -> None:
        """The leader first, which starts the rebalance."""
        leader = self.shard.state.classic(G).leader
        self.ids.sort(key=lambda member_id: member_id != leader)
        self.join()

    def sync(self) -> None:
        group = self.shard.state.classic(G)
        for number, member_id in enumerate(self.ids, 100_000):
            leads = member_id == group.leader
            assigned = tuple((each, b"partitions") for each in self.ids) if leads else ()
            self.shard.handle(
                Sync(
                    reply_to=ReplyTo(number),
                    group_id=G,
                    member_id=member_id,
                    generation=group.generation,
                    assignments=assigned,
                    version=3,
                ),
                NOW,
            )
        released = self.shard.appended(self.shard.state.positions.written)
        assert len(released) == self.members
        assert group.phase is Phase.STABLE


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["new members", "members that join again"])
def test_the_work_grows_with_the_members_and_not_with_their_square(again: bool) -> None:
    def work(members: int) -> list[int]:
        storm = Storm(members)
        first = [calls_of(step) for step in (storm.get_ids, storm.join, storm.sync)]
        return [calls_of(step) for step in (storm.rejoin, storm.sync)] if again else first

    for few, many in zip(work(100), work(400), strict=True):
        assert many < 4.2 * few


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_member_of_a_consumer_group_joins_in_as_many_calls_however_many_are_there(assignor: str) -> None:
    """The assignor looks at every member, in a loop that calls no function of ours for each of them."""

    def join(shard: Shard, number: int) -> None:
        out = shard.handle(
            ConsumerHeartbeat(
                reply_to=ReplyTo(number),
                group_id=G,
                member_id=MemberId(f"m-{number}"),
                names=(TopicName("t"),),
                rebalance_timeout_ms=60_000,
                server_assignor=assignor,
                owned=(),
            ),
            NOW,
        )
        assert len(out.effects) == 0
        (reply,) = shard.appended(shard.state.positions.written)
        assert isinstance(reply.body, ConsumerHeartbeatReply)
        assert reply.body.member_epoch == number

    def last_join(members: int) -> int:
        topic = TopicImage(TopicId(bytes(15) + b"\7"), TopicName("t"), 10)
        shard = Shard(GroupSettings(), Instant(0), TopicsChanged((topic,), 1))
        for number in range(1, members):
            join(shard, number)
        return calls_of(lambda: join(shard, members), of_builtins=False)

    assert last_join(400) < last_join(100) + 20
