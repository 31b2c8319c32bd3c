"""What is acknowledged is durable: commits, and epochs of members, over a disk that fails and forgets."""

import asyncio
import copy
import errno
from collections.abc import Awaitable
from typing import Any

import pytest

from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.topics import TopicToCreate
from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    ConsumerHeartbeat,
    FetchOffsets,
    FetchTopic,
    OwnedTopic,
)
from kohort.groups.replies import CommitReply, ConsumerHeartbeatReply, FetchReply
from kohort.log.files.disk import Disk
from kohort.log.files.storage import LogStorage
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, MemberId, Partition, ReplyTo, TopicName
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.testing.faults import FakeDisk, Fault, Survival

GROUP, MODERN = GroupId("g"), GroupId("modern")
TOPIC = TopicName("t")
ZERO = Partition(0)


async def settled(answer: Any) -> Any:  # noqa: ANN401 - a reply of any kind, now or later
    return await answer if isinstance(answer, Awaitable) else answer


def crashed(disk: FakeDisk, survival: Survival = Survival.NOTHING, kept: int = 0) -> FakeDisk:
    """The disk as the next process finds it; the old one, still running here, keeps its own."""
    found = copy.deepcopy(disk)
    found.crash(survival, kept)
    return found


class Node:
    """A broker without sockets."""

    def __init__(self, broker: BrokerState, clock: VirtualClock) -> None:
        self.broker = broker
        self.clock = clock

    @classmethod
    async def start(cls, disk: Disk) -> "Node":
        settings = Settings(overrides={"offsets.topic.num.partitions": "1"})
        catalog, storage = await open_data(settings, disk)
        clock = VirtualClock()
        broker = BrokerState(settings, catalog, storage, clock)
        await broker.start()
        if broker.topics.get(TOPIC) is None:
            await broker.topics.create(TopicToCreate(TOPIC, partitions=4))
        await broker.coordinator.ensure_offsets_topic()
        await broker.coordinator.ready()
        return cls(broker, clock)

    async def recover(self) -> None:
        """Let the failed log be opened again, as the maintenance does, and the groups be loaded from it."""
        topic = self.broker.topics.get(CONSUMER_OFFSETS)
        assert topic is not None
        assert topic.logs[0].failure is not None
        assert isinstance(self.broker.storage, LogStorage)
        await self.broker.storage.reopen(topic.logs[0].partition)
        self.clock.advance(10_000)
        await self.broker.coordinator.ready()

    def commit(self, offset: int) -> Any:  # noqa: ANN401 - a reply, now or later
        row = CommitRow(TOPIC, ZERO, offset)
        return self.broker.coordinator.ask(
            GROUP, lambda reply_to: CommitOffsets(reply_to=reply_to, group_id=GROUP, rows=(row,))
        )

    async def commit_and_wait(self, offset: int) -> ErrorCode:
        reply: CommitReply = await settled(self.commit(offset))
        return reply.rows[0].error

    async def committed(self) -> int:
        asked = (FetchTopic(TOPIC, (ZERO,)),)
        reply: FetchReply = await settled(
            self.broker.coordinator.ask(
                GROUP, lambda reply_to: FetchOffsets(reply_to=reply_to, group_id=GROUP, topics=asked)
            )
        )
        assert reply.error is ErrorCode.NONE
        return reply.rows[0].offset

    async def beat(self, member: "Reconciling") -> ErrorCode:
        """One heartbeat; what a good answer says is what the member knows from then on."""
        reply: ConsumerHeartbeatReply = await settled(self.broker.coordinator.ask(MODERN, member.request))
        member.learn(reply)
        return reply.error

    async def stop(self) -> None:
        await self.broker.stop()


class Reconciling:
    """A member of a consumer group: it owns what it was assigned as soon as it hears of it."""

    def __init__(self, name: str) -> None:
        self.name = MemberId(name)
        self.epoch = 0
        self.owned: tuple[OwnedTopic, ...] = ()

    def request(self, reply_to: ReplyTo) -> ConsumerHeartbeat:
        joins = self.epoch == 0
        return ConsumerHeartbeat(
            reply_to=reply_to,
            group_id=MODERN,
            member_id=self.name,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            names=(TOPIC,),
            owned=() if joins else self.owned,
        )

    def learn(self, reply: ConsumerHeartbeatReply) -> None:
        if reply.error is ErrorCode.NONE:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = tuple(OwnedTopic(each.topic_id, each.partitions) for each in reply.assignment)
        elif reply.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch, self.owned = 0, ()

    @property
    def partitions(self) -> list[Partition]:
        return sorted(number for topic in self.owned for number in topic.partitions)


async def reconcile(node: Node, members: tuple[Reconciling, ...]) -> set[ErrorCode]:
    """The codes of heartbeats in turn. No two members ever own a partition; at the end all have an owner."""
    codes: set[ErrorCode] = set()
    for _ in range(8):
        for member in members:
            codes.add(await node.beat(member))
            await node.broker.coordinator.ready()
            every = [number for each in members for number in each.partitions]
            assert len(every) == len(set(every)), [each.partitions for each in members]
    assert sorted(every) == [0, 1, 2, 3]
    assert len({each.epoch for each in members}) == 1
    return codes


@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("acknowledged", [1, 2, 7])
def test_an_acknowledged_commit_survives_the_loss_of_power(acknowledged: int, survival: Survival) -> None:
    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        for offset in range(1, acknowledged + 1):
            assert await node.commit_and_wait(offset) is ErrorCode.NONE
        for offset in range(100, 103):
            node.commit(offset)  # on its way when the power goes; nobody was told
        again = await Node.start(crashed(disk, survival, kept=7))
        assert await again.committed() in (acknowledged, 100, 101, 102)
        await again.stop()

    asyncio.run(run())


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failing_write_refuses_its_commit_and_no_other(number: int, error: int) -> None:
    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        await node.commit_and_wait(0)  # the directory and the first segment exist now
        disk.fail(writes=[Fault(number, error, written=5)])
        best = 0
        for offset in range(1, 10):
            code = await node.commit_and_wait(offset)
            assert code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
            await node.broker.coordinator.ready()  # after a refusal it is loaded again
            best = offset if code is ErrorCode.NONE else best
            assert await node.committed() == best  # never what was refused, never less than was granted
        again = await Node.start(crashed(disk))
        assert await again.committed() == best == 9
        await again.stop()

    asyncio.run(run())


@pytest.mark.parametrize("heartbeats", range(1, 6))
def test_members_reconcile_over_a_failing_write_and_what_they_heard_is_stored(heartbeats: int) -> None:
    """The write fails after so many heartbeats: that of a join, of a revocation, or of what was freed."""

    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        first, second = members = Reconciling("first"), Reconciling("second")
        for number in range(heartbeats):
            assert await node.beat(members[number % 2]) is ErrorCode.NONE
        await node.broker.coordinator.journal.written()  # it writes too, and would take the fault
        disk.fail(writes=[Fault(1, errno.ENOSPC, written=5)])
        assert ErrorCode.NOT_COORDINATOR in await reconcile(node, members)
        again = await Node.start(crashed(disk))
        epoch, shares = first.epoch, [each.partitions for each in members]
        assert await reconcile(again, members) == {ErrorCode.NONE}
        assert (second.epoch, [each.partitions for each in members]) == (epoch, shares)
        await again.stop()

    asyncio.run(run())


@pytest.mark.parametrize("survival", list(Survival))
def test_a_member_in_the_middle_of_a_reconciliation_survives_the_loss_of_power(survival: Survival) -> None:
    """One has yet to give up two partitions, the other waits for them."""

    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        first, second = members = Reconciling("first"), Reconciling("second")
        assert await node.beat(first) is await node.beat(second) is ErrorCode.NONE
        assert (first.partitions, second.partitions) == ([0, 1, 2, 3], [])
        again = await Node.start(crashed(disk, survival, kept=7))
        assert await reconcile(again, members) == {ErrorCode.NONE}
        assert first.epoch == second.epoch == 2
        await again.stop()

    asyncio.run(run())


@pytest.mark.parametrize("number", range(1, 6))
def test_after_a_failed_sync_nothing_is_acknowledged_until_the_log_is_recovered(number: int) -> None:
    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        await node.commit_and_wait(0)
        await node.broker.coordinator.journal.written()  # it syncs too, and would take the fault
        disk.fail(syncs=[Fault(number)])
        best = 0
        for offset in range(1, 8):
            code = await node.commit_and_wait(offset)
            if offset == number:
                assert code is ErrorCode.NOT_COORDINATOR
            elif offset > number:
                assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            best = offset if code is ErrorCode.NONE else best
        assert best == number - 1  # a failed sync is never retried
        await node.recover()
        assert await node.committed() == best
        assert await node.commit_and_wait(50) is ErrorCode.NONE
        best = 50
        again = await Node.start(crashed(disk))
        assert await again.committed() == best
        await again.stop()

    asyncio.run(run())


def test_commits_that_gather_while_one_is_synced_share_the_next_append() -> None:
    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        await node.commit_and_wait(0)
        before = disk.syncs
        replies = await asyncio.gather(*(settled(node.commit(offset)) for offset in range(1, 501)))
        assert {reply.rows[0].error for reply in replies} == {ErrorCode.NONE}
        assert await node.committed() == 500
        assert disk.syncs - before <= 10
        await node.stop()

    asyncio.run(run())


def test_a_group_never_reads_an_offset_before_its_log_is_loaded() -> None:
    """Never offset -1, or 0, for "not loaded": that would send a consumer back to the start."""

    async def run() -> None:
        disk = FakeDisk()
        node = await Node.start(disk)
        await node.commit_and_wait(42)
        await node.stop()
        settings = Settings(overrides={"offsets.topic.num.partitions": "1"})
        catalog, storage = await open_data(settings, disk)
        clock = VirtualClock()
        broker = BrokerState(settings, catalog, storage, clock)
        await broker.start()
        asked = (FetchTopic(TOPIC, (ZERO,)),)
        early = broker.coordinator.ask(
            GROUP, lambda reply_to: FetchOffsets(reply_to=reply_to, group_id=GROUP, topics=asked)
        )
        assert isinstance(early, FetchReply)
        assert early.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await broker.coordinator.ready()
        assert await Node(broker, clock).committed() == 42
        await broker.stop()

    asyncio.run(run())
