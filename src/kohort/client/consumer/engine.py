"""One consumer at work: the poll loop over membership, positions and fetches. Lives on the running loop."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

from kohort.assign.assignor import Assignor
from kohort.client.cluster import ClusterClient
from kohort.client.connection import Dial
from kohort.client.consumer.background import MetadataWatch, Tasks, Topics
from kohort.client.consumer.fetcher import Fetcher
from kohort.client.consumer.lookups import PositionLookups
from kohort.client.consumer.member import GroupMember, Interceptors, Invoke, MemberInputs
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import NoGroupError, PositionTimeoutError, WakeupError
from kohort.client.fetching.buffer import P, Take
from kohort.client.fetching.chunk import Chunk, ConsumerRecord
from kohort.client.fetching.positions import FetchPositions
from kohort.client.membership.classic.coordinator import ClassicMembership
from kohort.client.membership.consumer.coordinator import ConsumerMembership
from kohort.client.membership.machine import Membership
from kohort.client.subscription import (
    OffsetAndMetadata,
    SubscriptionError,
    Subscriptions,
    SubscriptionType,
)
from kohort.model.ids import Instant, MemberId
from kohort.model.topics import TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]
_SHORTEST_WAIT_MS = 1.0
_LONGEST_WAIT_MS = 5_000.0
# So long after a full turn, records that are there already are handed out without another: short beside any
# interval of the group, long beside the time a poll takes.
_CALM_MS = 10.0
_FOREVER_MS = 2.0**53
_GOODBYE_MS = 2_000.0  # how long a broker may take to answer that it was left


class EngineInputs(NamedTuple):
    """What an engine is given besides its settings."""

    subscriptions: Subscriptions
    assignors: Sequence[Assignor]
    invoke: Invoke
    dial: Dial


class Engine:
    """Made by ``start``, on the loop it works on."""

    def __init__(self, cluster: ClusterClient, settings: ConsumerSettings, given: EngineInputs) -> None:
        self.cluster = cluster
        self.settings = settings
        self.tasks = Tasks()
        self._subscriptions = given.subscriptions
        self._interceptors = Interceptors(settings.interceptors)
        self._is_woken = False
        self._calm_until = 0.0
        self._watch = MetadataWatch(
            cluster, settings, self.tasks, wanted=self._wanted_topics, updated=self._metadata_updated
        )
        self.positions = FetchPositions(
            given.subscriptions, settings.reset_policy, backoff_ms=settings.retry_backoff_ms
        )
        self.member = self._new_member(given)
        self.fetcher = Fetcher(cluster, settings, given.subscriptions, self.positions, self._watch)
        committed = self._committed_in_time if self.member is not None else None
        self._lookups = PositionLookups(cluster, settings, self.positions, self._watch, committed)

    def _new_member(self, given: EngineInputs) -> GroupMember | None:
        if self.settings.group_id is None:
            return None
        settings, subscriptions, now = self.settings, given.subscriptions, self.tasks.now()
        machine: Membership
        if settings.uses_consumer_protocol:
            own_id = MemberId(str(uuid4()))
            machine = ConsumerMembership(settings, own_id, subscriptions, dice=random.random, now=now)
        else:
            machine = ClassicMembership(settings, given.assignors, subscriptions, dice=random.random, now=now)
        inputs = MemberInputs(self.cluster, given.dial, given.invoke, self._interceptors)
        return GroupMember(machine, self.tasks, self._watch, inputs)

    def _wanted_topics(self) -> Topics:
        subscription = self._subscriptions.subscription
        if subscription.pattern is not None:
            return None
        wanted = self.member.membership.wanted_topics if self.member is not None else frozenset()
        return None if wanted is None else subscription.topics | wanted

    def _metadata_updated(self, asked: Topics) -> None:
        if self.member is not None:
            self.member.metadata_updated(asked)

    # --- poll ---------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float, limit: int) -> Records:
        """Records as soon as there are some, at most ``limit``; nothing when the time is up.

        Kafka's ``KafkaConsumer.poll``: first the group and the positions, then records (``pollForFetches``);
        the next fetches are on their way before the application sees them. An empty result also comes early,
        when a position moved over nothing but transaction markers.
        """
        return self._interceptors.on_consume(await self.poll_by(Chunk.take, timeout_ms, limit))

    def poll_buffered(self, limit: int) -> Records | None:
        """As ``poll``, if nothing has happened since the last one that would need a turn; else None.

        Takes no time on the loop, and may run in the application's thread: see ``collect_more``.
        """
        if self.tasks.bell.is_set() or self.tasks.now() >= self._calm_until:
            return None
        return self.fetcher.collect_more(limit)

    def stir(self) -> None:
        """Let the next poll have its turn: something was changed. From any thread."""
        self._calm_until = 0.0

    def _settle(self) -> None:
        member = self.member
        is_calm = member is None or not self._subscriptions.is_group_managed or member.membership.has_settled
        if is_calm and not self._interceptors.consume:
            self._calm_until = self.tasks.now() + _CALM_MS

    async def poll_by(self, take: Take[P], timeout_ms: float, limit: int) -> dict[TopicPartition, P]:
        """As ``poll``, in the form ``take`` gives records."""
        deadline = self.tasks.now() + timeout_ms
        self.stir()
        while True:
            self._raise_what_waits()
            self.tasks.bell.clear()
            if self.fetcher.is_asking:  # even if records are there, let the loop read what follows them
                await asyncio.sleep(0)
            if await self._group_turn():  # Kafka's updateAssignmentMetadataIfNeeded
                self._lookups.start(self.tasks)
            found = self.fetcher.collect(take, limit)
            if not found.records and not found.advanced:
                times = [self._group_again_at(), self.positions.next_retry(), self.fetcher.send(self.tasks)]
                left = deadline - self.tasks.now()
                await self._wait(left, times)
                found = self.fetcher.collect(take, limit)
            if found.records or found.advanced:
                self.fetcher.send(self.tasks)
                self._settle()
                return found.records
            if self.tasks.now() >= deadline:
                self._raise_what_waits()
                return {}

    async def take_part(self, timeout_ms: float) -> bool:
        """Let the group advance and read nothing: whether it has settled before the time was up.

        What others need of the member (joining again, giving partitions back) is done in here. Positions
        are not looked up: the reader of the records keeps them.
        """
        deadline = self.tasks.now() + timeout_ms
        membership = self.require_member("take part in rebalances").membership
        while True:
            self._raise_what_waits()
            self.tasks.bell.clear()
            if await self._group_turn() and membership.has_settled:
                return True
            left = deadline - self.tasks.now()
            if left <= 0:
                return False
            await self._wait(left, [membership.poll_again_at()])

    def _raise_what_waits(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise WakeupError
        self.tasks.raise_failure()
        self._watch.raise_error()

    def _group_again_at(self) -> Instant | None:
        """When time alone takes the group further."""
        return self.member.membership.poll_again_at() if self.member is not None else None

    async def _group_turn(self) -> bool:
        """One turn of the group, if there is one: whether positions may be looked up."""
        if self._subscriptions.subscription.type is SubscriptionType.NONE:
            raise SubscriptionError(
                "the consumer has nothing to poll", hint="call subscribe() or assign() first"
            )
        self._watch.request_if_old()
        return await self.member.poll() if self.member is not None else True

    async def _wait(self, left: float, times: Sequence[Instant | None]) -> None:
        now = self.tasks.now()
        soonest = min((time - now for time in times if time is not None), default=_LONGEST_WAIT_MS)
        wait = min(left, max(soonest, _SHORTEST_WAIT_MS), _LONGEST_WAIT_MS)
        # Even without time left the loop gets a turn: else repeated polls would never get anywhere.
        await self.tasks.wait(max(wait, 0.0))

    def wakeup(self) -> None:
        self._is_woken = True
        self.tasks.bell.set()

    # --- single questions ---------------------------------------------------------------------

    async def position(self, partition: TopicPartition, timeout_ms: float) -> int:
        """The next offset, looked up if need be."""
        deadline = self.tasks.now() + timeout_ms
        while True:
            position = self._subscriptions.state(partition).valid_position
            if position is not None:
                return position.offset
            self._raise_what_waits()
            left = deadline - self.tasks.now()
            if left <= 0:
                raise PositionTimeoutError(partition, timeout_ms)
            self.tasks.bell.clear()
            self._watch.request_if_old()
            self._lookups.start(self.tasks)
            await self._wait(left, [self.positions.next_retry()])

    async def committed(
        self, partitions: tuple[TopicPartition, ...], timeout_ms: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return await self.require_member("ask for committed offsets").committed(
            partitions, self.after(timeout_ms)
        )

    async def _committed_in_time(
        self, partitions: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return await self.committed(partitions, self.settings.default_api_timeout_ms)

    def require_member(self, what: str) -> GroupMember:
        if self.member is None:
            raise NoGroupError(what)
        return self.member

    def after(self, timeout_ms: float) -> Instant:
        return Instant(self.tasks.now() + int(min(timeout_ms, _FOREVER_MS)))

    # --- the end ------------------------------------------------------------------------------

    async def close(self, timeout_ms: float) -> None:
        """Commit and leave, as far as the time allows; then let go of everything."""
        deadline = self.after(timeout_ms)
        try:
            if self.member is not None:
                try:
                    await self.member.close(deadline)
                finally:
                    await self.member.finish(self._goodbye_ms(deadline))
        finally:
            try:
                await self.tasks.stop()
                await self.fetcher.close_sessions(self._goodbye_ms(deadline) / 1_000)
            finally:  # also if the call is cancelled meanwhile
                if self.member is not None:
                    self.member.hang_up()
                self.cluster.close()

    def _goodbye_ms(self, deadline: Instant) -> float:
        return min(max(deadline - self.tasks.now(), 0), _GOODBYE_MS)


async def start(settings: ConsumerSettings, given: EngineInputs) -> Engine:
    """Connect to the cluster; NoBrokerError at once if no broker answers."""
    cluster = ClusterClient(settings.bootstrap, settings.client(), dial=given.dial)
    await cluster.__aenter__()
    return Engine(cluster, settings, given)
