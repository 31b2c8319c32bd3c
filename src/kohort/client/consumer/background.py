"""What a consumer does beside its application: tasks that wake it when they end, and metadata on demand."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from kohort.client.cluster import ClusterClient
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import BrokerError, ConsumerClosedError, TopicAuthorizationError
from kohort.client.metadata import Metadata
from kohort.client.settings import backoff_ms
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Instant, TopicName


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


_log = logging.getLogger(__name__)

Topics = frozenset[TopicName] | None
"""Names, or None for all topics there are."""


def _no_jitter() -> float:
    return 0.5


_PASSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
_RAISED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


def _may_pass(error: KohortError) -> bool:
    return error.retriable or isinstance(error, TopicAuthorizationError)


class MetadataWatch:
    """One request at a time; ``updated`` hears what each was about."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: ConsumerSettings,
        tasks: Tasks,
        *,
        wanted: Callable[[], Topics],
        updated: Callable[[Topics], None],
    ) -> None:
        self.version = 0
        self._cluster = cluster
        self._settings = settings
        self._tasks = tasks
        self._wanted = wanted
        self._updated = updated
        self._more: frozenset[TopicName] = frozenset()
        self._is_requested = False
        self._is_running = False
        self._not_before = self._old_at = tasks.now()
        self._error: KohortError | None = None
        self._error_topic: TopicName | None = None  # the one that the error is about, if it is about one
        self._fruitless = 0  # requests in a row that failed or brought nothing new
        self._last_asked: Topics = frozenset()
        self._is_cut_off = False
        self._missing: frozenset[TopicName] = frozenset()  # topics the last answer did not have
        self._lamented: frozenset[TopicName] = frozenset()  # those of them the log has

    @property
    def metadata(self) -> Metadata:
        return self._cluster.metadata

    def request(self, more: frozenset[TopicName] = frozenset()) -> None:
        """Ask for the topics of the consumer, and these."""
        self._more |= more
        self._is_requested = True
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run())

    def request_if_old(self) -> None:
        """Once in metadata_max_age_ms, whether or not anything is missing."""
        if self._tasks.now() >= self._old_at:
            self.request()

    def raise_error(self) -> None:
        """What a request was refused for, if the topic is still wanted; the next one tries again."""
        error, self._error = self._error, None
        is_wanted = self._error_topic is None or self._error_topic in (self._wanted() or ())
        if error is not None and is_wanted:
            raise error

    async def _run(self) -> None:
        try:
            while self._is_requested:
                if self._topics() == self._last_asked:  # others than last time are asked for at once
                    await asyncio.sleep(max(0, self._not_before - self._tasks.now()) / 1_000)
                self._is_requested = False
                before = self.metadata
                error, topic = await self._ask()
                if error is not None and not error.retriable:
                    self._error, self._error_topic = error, topic
                # A topic that is denied is asked for again, too: the right may be given any time.
                if self._missing or (error is not None and _may_pass(error)):
                    self._is_requested = True
                self._tell_of(error)
                pause = backoff_ms(self._fruitless, self._settings, _no_jitter)
                self._fruitless = self._fruitless + 1 if error is not None or self.metadata == before else 0
                self._not_before = Instant(self._tasks.now() + int(pause))
        finally:
            self._is_running = False

    def _tell_of(self, error: KohortError | None) -> None:
        """What the application may wait for in vain, once."""
        is_cut_off = error is not None and error.retriable
        if is_cut_off and not self._is_cut_off:
            _log.warning("%s; trying again until a broker answers", error)
        self._is_cut_off = is_cut_off

    def _topics(self) -> Topics:
        wanted = self._wanted()
        return None if wanted is None else wanted | self._more

    async def _ask(self) -> tuple[KohortError | None, TopicName | None]:
        """One request; what went wrong, and with which topic if it was one."""
        more, asked = self._more, self._topics()
        self._last_asked = asked
        try:
            if asked is None:
                metadata = await self._cluster.refresh_all()
            else:
                create = self._settings.allow_auto_create_topics
                metadata = await self._cluster.refresh(asked, create=create)
        except KohortError as error:
            return error, None
        self._more -= more
        self.version += 1
        self._old_at = Instant(self._tasks.now() + self._settings.metadata_max_age_ms)
        self._updated(asked)
        self._tasks.bell.set()
        wanted = self._wanted() or frozenset()
        self._note_missing(metadata, wanted)
        return self._refused(metadata, wanted)

    def _note_missing(self, metadata: Metadata, wanted: frozenset[TopicName]) -> None:
        """Topics that are not there are asked for again and again: they may be created.

        The first answer says nothing yet: brokers create a topic after they were asked for it.
        """
        missing = frozenset(name for name in wanted if metadata.problems.get(name) in _PASSING)
        for name in sorted((missing & self._missing) - self._lamented):
            _log.warning("there is no topic %r: nothing is read from it until there is", name)
        self._lamented = missing & (self._lamented | self._missing)
        self._missing = missing

    def _refused(
        self, metadata: Metadata, wanted: frozenset[TopicName]
    ) -> tuple[KohortError | None, TopicName | None]:
        for name in sorted(wanted):
            code = metadata.problems.get(name)
            if code in _RAISED:
                return BrokerError(code, f"read topic {name!r}"), name
        return None, None
