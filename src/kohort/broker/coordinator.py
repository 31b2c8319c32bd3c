"""The group coordinator: which shard a group lives in, and whether that shard can be asked.

Every group belongs to one partition of ``__consumer_offsets`` (``partition_for``); whoever leads
that partition coordinates the group. Here one node leads them all.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

from kohort.broker.clock import Clock
from kohort.broker.config_values import ConfigValues
from kohort.broker.journal import JournalWriter
from kohort.broker.memory import members_limit
from kohort.broker.shard import GroupShard, ShardLog, Status
from kohort.broker.shard_loading import load
from kohort.broker.topics import ServedTopic, Topics, offsets_topic
from kohort.groups.availability import Absence, answer_while, heartbeat_error_while
from kohort.groups.classic.state import member_bytes
from kohort.groups.commands import Protocol, Request
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.validate import check_group_id
from kohort.log.log import Storage
from kohort.model.errors import ErrorCode, KohortError, RefusedError
from kohort.model.ids import Generation, GroupId, InstanceId, Instant, MemberId, ReplyTo, TopicName
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import partition_for

logger = logging.getLogger("kohort.coordinator")

_GROUPS_THAT_FILL_IT = 4  # one group may take a quarter of what all members may

NOBODY = ReplyTo(0)  # of a command that is only made to be answered for a shard that is absent
_FIRST_RETRY_MS = 100  # after a partition could not be read; each further wait is twice as long
_LAST_RETRY_MS = 25_600


class GroupCoordinator:
    """The shards of this node, made when ``__consumer_offsets`` exists, loaded in the background."""

    def __init__(
        self, topics: Topics, storage: Storage, configs: ConfigValues, clock: Clock, journal: JournalWriter
    ) -> None:
        self._topics = topics
        self._storage = storage
        self._configs = configs
        self._clock = clock
        self.journal = journal
        self._shards: list[GroupShard] = []
        self._loading: asyncio.Task[None] | None = None
        self._creating: asyncio.Task[None] | None = None
        self._running = False
        self._members_limit = members_limit(configs)

    def start(self) -> None:
        """Begin to load what ``__consumer_offsets`` holds; requests are answered meanwhile."""
        self._running = True
        self.journal.start()
        topic = self._topics.get(CONSUMER_OFFSETS)
        if topic is not None:
            self._open(topic)

    async def stop(self) -> None:
        """Answer everyone who waits, and forget the groups; the second call does nothing."""
        if not self._running:
            return
        self._running = False
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self._shards:
            shard.stop()
        await self.journal.stop()

    async def ready(self) -> None:
        """Wait until everything that was being loaded is loaded."""
        if self._loading is not None:
            await self._loading

    async def ensure_offsets_topic(self) -> None:
        """Create ``__consumer_offsets`` if there is none; requests that come meanwhile share the attempt.

        Kafka answers COORDINATOR_NOT_AVAILABLE and creates it in the background; a node that can do it
        by itself does it inside the request.
        """
        if self._shards:
            return
        if self._creating is None:
            self._creating = asyncio.get_running_loop().create_task(
                self._create_offsets_topic(), name="kohort create offsets topic"
            )
        # The client may hang up; the others who share this attempt have not.
        await asyncio.shield(self._creating)

    async def _create_offsets_topic(self) -> None:
        try:
            topic = self._topics.get(CONSUMER_OFFSETS)  # somebody may have asked Metadata for it by name
            self._open(topic or await self._topics.create(offsets_topic(self._configs)))
        finally:
            self._creating = None

    def ask(self, group_id: str, make: Callable[[ReplyTo], Request]) -> ReplyBody | asyncio.Future[Any]:
        """Ask the shard a group lives in; a shard that cannot be asked is answered for."""
        shard = self._shard_of(group_id)
        if shard is None or shard.status is not Status.ACTIVE:
            return answer_while(self._absence(shard), make(NOBODY), self.settings())
        return shard.ask(make)

    def ask_all(self, make: Callable[[ReplyTo], Request]) -> Iterator[ReplyBody | asyncio.Future[Any]]:
        """Ask every shard, one after the other; the caller may let others have their turn in between."""
        if not self._running:
            yield answer_while(Absence.STOPPED, make(NOBODY), self.settings())
            return
        for shard in list(self._shards):
            if shard.status is Status.ACTIVE:
                yield shard.ask(make)
            else:
                yield answer_while(self._absence(shard), make(NOBODY), self.settings())

    def heartbeat(
        self,
        who: tuple[GroupId, MemberId],
        generation: Generation,
        instance_id: InstanceId | None,
    ) -> ErrorCode:
        """The commonest request: no command, no events, no reply object; one deadline moves."""
        shard = self._shard_of(who[0])
        if shard is None or shard.status is not Status.ACTIVE:
            absence = self._absence(shard)
            wrong = ErrorCode.NONE if absence is Absence.STOPPED else check_group_id(who[0])
            return wrong or heartbeat_error_while(absence)
        return shard.core.heartbeat(who, generation, instance_id, self._clock.now().instant)

    def has_memory_for(self, group_id: str, member_id: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether all groups together have room for a member that joins (again) with these protocols.

        The core keeps the bound of each group. A member that says no more than before is let in.
        """
        taken = sum(shard.core.state.members_bytes for shard in self._shards)
        wanted = member_bytes(member_id, protocols)
        if taken + wanted <= self._members_limit:
            return True
        shard = self._shard_of(group_id)
        group = shard.core.group(GroupId(group_id)) if shard is not None else None
        member = group.members.get(MemberId(member_id)) if group is not None else None
        return member is not None and wanted <= member_bytes(member.member_id, member.protocols)

    def _shard_of(self, group_id: str) -> GroupShard | None:
        if not self._shards:
            return None
        return self._shards[partition_for(group_id, len(self._shards))]

    def _absence(self, shard: GroupShard | None) -> Absence:
        if not self._running:
            return Absence.STOPPED
        loading = shard is not None and shard.status is Status.LOADING
        return Absence.LOADING if loading else Absence.NOT_OWNED

    async def topic_deleted(self, topic: TopicName) -> None:
        """What groups have committed for a topic goes with it; a topic of that name may come again."""
        if topic == CONSUMER_OFFSETS:
            for shard in self._shards:
                shard.stop()
            self._shards = []
            return
        # A shard that breaks over it has said so in the log, and is built anew from what is stored.
        await asyncio.gather(*(shard.forget_topic(topic) for shard in self._shards), return_exceptions=True)

    def settings(self) -> GroupSettings:
        """What the core is told about limits and times; read when a shard is made."""
        number = self._configs.number
        return GroupSettings(
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            max_size=number("group.max.size"),
            max_bytes=members_limit(self._configs) // _GROUPS_THAT_FILL_IT,
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
        )

    def _open(self, topic: ServedTopic) -> None:
        self._shards = [self._make(topic, partition) for partition in range(len(topic.logs))]
        self._load(self._shards)

    def _make(self, topic: ServedTopic, partition: int) -> GroupShard:
        stored = ShardLog(self._storage, lambda: topic.logs[partition], topic.max_message_bytes)
        return GroupShard(stored, self.settings(), self._clock, self.journal, self._rebuild)

    def _load(self, shards: list[GroupShard]) -> None:
        """Shards with nothing stored are active at once; the others are loaded one after another."""
        filled = []
        for shard in shards:
            if shard.is_stored:
                filled.append(shard)
            else:
                shard.activate()
        if filled:
            self._loading = asyncio.get_running_loop().create_task(
                self._load_all(filled, self._loading), name="kohort load groups"
            )

    async def _load_all(self, shards: list[GroupShard], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        for shard in shards:
            await self._load_one(shard)

    async def _load_one(self, shard: GroupShard) -> None:
        """Load a shard. What it holds may be wrong, which stays so; a read that fails is tried again."""
        try:
            await load(shard.core, shard.log)
            await shard.wake_groups()
            shard.activate()
        except Exception as error:
            if shard.status is not Status.LOADING:
                return  # a bug in the core: the shard has said so and has given up
            if isinstance(error, KohortError) and not isinstance(error, RefusedError):
                logger.error("%s cannot be loaded, its groups are not served: %s", shard.log.partition, error)
                shard.drop(Status.FAILED)
            else:
                self._load_later(shard, error)

    def _load_later(self, shard: GroupShard, error: Exception) -> None:
        delay = min(_FIRST_RETRY_MS << shard.failed_loads, _LAST_RETRY_MS)
        shard.start_over()
        logger.error(
            "%s cannot be loaded, the next attempt is in %d ms: %r", shard.log.partition, delay, error
        )

        def load_again() -> None:
            if self._running and shard in self._shards:
                self._load([shard])

        self._clock.call_at(Instant(self._clock.now().instant + delay), load_again)

    def _rebuild(self, broken: GroupShard) -> None:
        """A bug in the core: drop what is in memory and start again from what is stored."""
        topic = self._topics.get(CONSUMER_OFFSETS)
        if topic is None or broken not in self._shards:
            return
        partition = self._shards.index(broken)
        self._shards[partition] = self._make(topic, partition)
        self._load([self._shards[partition]])
