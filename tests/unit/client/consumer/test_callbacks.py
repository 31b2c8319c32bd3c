"""What rebalance listeners may not do: begin again what they are a part of."""

import pytest
from tests.unit.client.consumer.stage import P0, Stage, joined, on_stage, read

from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import ConcurrentUseError
from kohort.client.subscription import Partitions


class Meddling:
    """Polls, unsubscribes and closes in every callback; keeps what it is told."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self.heard: list[str] = []
        self._consumer = consumer

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self._meddle("assigned")

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await self._meddle("revoked")

    async def _meddle(self, when: str) -> None:
        for call in (self._consumer.poll, self._consumer.unsubscribe, self._consumer.close):
            with pytest.raises(ConcurrentUseError, match="waits for this callback"):
                await call()
            self.heard.append(f"{when}, {call.__name__} refused")


@on_stage
async def test_a_callback_cannot_begin_the_call_it_is_a_part_of(stage: Stage) -> None:
    refusals = [f"{{}}, {name} refused" for name in ("poll", "unsubscribe", "close")]
    async with stage.reader("t", group_id="g") as consumer:
        listener = Meddling(consumer)
        consumer.subscribe(["t"], listener=listener)
        await joined(consumer)
        assert listener.heard == [each.format("assigned") for each in refusals]
        await consumer.unsubscribe()
        assert listener.heard[3:] == [each.format("revoked") for each in refusals]
        consumer.subscribe(["t"], listener=listener)
        await joined(consumer)
        listener.heard.clear()
    assert listener.heard == [each.format("revoked") for each in refusals]  # by the close


@on_stage
async def test_an_iteration_stops_returning_what_is_paused(stage: Stage) -> None:
    async with stage.reader() as consumer:
        async for record in consumer:
            assert record.value == b"a"
            consumer.pause(P0)
            break
        assert await consumer.poll(1) == {}
        assert await consumer.position(P0) == 1
        consumer.resume(P0)
        assert [record.value for record in await read(consumer, 2)] == [b"b", b"c"]


@on_stage
async def test_a_record_that_could_not_be_processed_is_not_committed(stage: Stage) -> None:
    class ProcessingError(Exception):
        pass

    async def process(group: str, *, fail_at: bytes | None) -> list[bytes]:
        seen: list[bytes] = []
        async with stage.reader("t", group_id=group) as consumer:
            async for record in consumer:
                if record.value == fail_at:
                    raise ProcessingError
                seen.append(record.value or b"")
                if record.value == b"c":
                    break
        return seen

    with pytest.raises(ProcessingError):
        await process("g", fail_at=b"b")
    assert await process("g", fail_at=None) == [b"b", b"c"]
