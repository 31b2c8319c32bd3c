"""What a consumer does beside its application: tasks that wake it when they are done."""

import asyncio
from collections.abc import Coroutine

from kohort.client.consumer.errors import ConsumerClosedError
from kohort.model.ids import Instant


class Tasks:
    """The background work of one consumer, and the bell that wakes a waiting poll."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self.bell = asyncio.Event()

    def now(self) -> Instant:
        """Milliseconds of the loop's clock."""
        return Instant(int(self._loop.time() * 1_000))

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run it; a failure it does not handle itself is a bug, and raised by the next poll."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = failure
        self.bell.set()

    def raise_failure(self) -> None:
        """What went wrong here; ConsumerClosedError on another loop, where nothing of this goes on."""
        if asyncio.get_running_loop() is not self._loop:
            raise ConsumerClosedError("the consumer was started on another event loop")
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def wait(self, millis: float) -> None:
        """Until the bell rings, but not longer."""
        try:
            async with asyncio.timeout(millis / 1_000):
                await self.bell.wait()
        except TimeoutError:
            return

    async def stop(self) -> None:
        """Cancel everything, and wait until it is gone."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
