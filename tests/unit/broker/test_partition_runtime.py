"""A shard whose storage misbehaves: everyone who waits is answered, and the log decides what is true."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.groups.commands import CommitOffsets, CommitRow, FetchOffsets, FetchTopic
from kohort.groups.replies import CommitReply, FetchReply
from kohort.groups.shard import Shard
from kohort.log.log import Append
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, TopicName
from kohort.model.topics import CONSUMER_OFFSETS

GROUP, TOPIC, ZERO = GroupId("g"), TopicName("t"), Partition(0)
Appending = Callable[[Sequence[Append]], "asyncio.Future[Any]"]


async def settled(answer: Any) -> Any:  # noqa: ANN401 - a reply of any kind, now or later
    return await answer if isinstance(answer, Awaitable) else answer


class Node:
    """A broker without sockets, in memory, with few partitions of ``__consumer_offsets``."""

    @classmethod
    async def start(cls, partitions: int = 1) -> "Node":
        node = cls()
        settings = Settings(overrides={"offsets.topic.num.partitions": str(partitions)})
        catalog, storage = await open_data(settings)
        node.broker = BrokerState(settings, catalog, storage, VirtualClock())
        await node.broker.start()
        await node.broker.coordinator.ensure_offsets_topic()
        return node

    broker: BrokerState

    async def commit(self, offset: int) -> ErrorCode:
        row = CommitRow(TOPIC, ZERO, offset)
        answer = self.broker.coordinator.ask(
            GROUP, lambda reply_to: CommitOffsets(reply_to=reply_to, group_id=GROUP, rows=(row,))
        )
        reply: CommitReply = await settled(answer)
        return reply.rows[0].error

    async def committed(self) -> int:
        asked = (FetchTopic(TOPIC, (ZERO,)),)
        answer = self.broker.coordinator.ask(
            GROUP, lambda reply_to: FetchOffsets(reply_to=reply_to, group_id=GROUP, topics=asked)
        )
        reply: FetchReply = await settled(answer)
        return reply.rows[0].offset


def raising(_: Sequence[Append]) -> "asyncio.Future[Any]":
    raise ValueError("a bug in the storage")


def failing(_: Sequence[Append]) -> "asyncio.Future[Any]":
    future = asyncio.get_running_loop().create_future()
    future.set_exception(ValueError("a bug in the storage"))
    return future


def cancelled(_: Sequence[Append]) -> "asyncio.Future[Any]":
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


@pytest.mark.parametrize("misbehave", [raising, failing, cancelled])
def test_a_storage_that_breaks_drops_the_shard_which_is_loaded_again(
    misbehave: Appending, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        node = await Node.start()
        assert await node.commit(1) is ErrorCode.NONE
        with monkeypatch.context() as patch:
            append = node.broker.storage.append

            def appending(appends: Sequence[Append]) -> "asyncio.Future[Any]":
                return (
                    misbehave(appends) if appends[0].partition.topic == CONSUMER_OFFSETS else append(appends)
                )

            patch.setattr(node.broker.storage, "append", appending)
            assert set(await asyncio.gather(node.commit(2), node.commit(3))) == {ErrorCode.NOT_COORDINATOR}
        await node.broker.coordinator.ready()
        assert await node.committed() == 1
        assert await node.commit(4) is ErrorCode.NONE
        assert await node.committed() == 4
        await node.broker.stop()

    asyncio.run(run())
    assert "__consumer_offsets-0: the coordinator is loaded from its log again" in caplog.text


def test_a_bug_behind_a_report_of_the_log_drops_the_shard_which_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        node = await Node.start()
        assert await node.commit(1) is ErrorCode.NONE

        def broken(*_: object) -> None:
            monkeypatch.undo()
            raise ValueError("a bug")

        monkeypatch.setattr(Shard, "appended", broken)
        assert await node.commit(2) is ErrorCode.NOT_COORDINATOR  # it is stored: the client does it twice
        await node.broker.coordinator.ready()
        assert await node.committed() == 2
        assert await node.commit(3) is ErrorCode.NONE
        assert await node.committed() == 3
        await node.broker.stop()

    asyncio.run(run())


def test_a_bug_in_the_core_is_answered_and_the_shard_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        node = await Node.start()
        assert await node.commit(1) is ErrorCode.NONE

        def broken(*_: object) -> None:
            raise ValueError("a bug in the core")

        with monkeypatch.context() as patch:
            patch.setattr(Shard, "handle", broken)
            assert await node.commit(2) is ErrorCode.NOT_COORDINATOR
        await node.broker.coordinator.ready()
        assert await node.committed() == 1
        await node.broker.stop()

    asyncio.run(run())


def test_a_partition_that_cannot_be_dropped_keeps_no_other_of_its_append_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        node = await Node.start(partitions=2)
        groups = [GroupId(str(number)) for number in range(10)]
        runtimes = [node.broker.coordinator._groups.of(group) for group in groups]
        first, other = (
            groups[0],
            next(g for g, r in zip(groups, runtimes, strict=True) if r is not runtimes[0]),
        )
        with monkeypatch.context() as patch:
            patch.setattr(runtimes[0], "settle", broken)
            waiting = [commit(node, group) for group in (first, other)]
            reply: CommitReply = await asyncio.wait_for(waiting[1], 30)
            assert reply.rows[0].error is ErrorCode.NONE
        await node.broker.stop()

    def commit(node: Node, group: GroupId) -> Any:  # noqa: ANN401 - a reply, later
        row = CommitRow(TOPIC, ZERO, 1)
        return node.broker.coordinator.ask(group, lambda reply_to: CommitOffsets(reply_to, group, (row,)))

    def broken(*_: object) -> None:
        raise MemoryError("no shard can be made")

    asyncio.run(run())
    assert "the coordinator did not survive an append" in caplog.text
