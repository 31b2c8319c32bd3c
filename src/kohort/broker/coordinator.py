"""The group coordinator: which shard a group lives in, and what is answered while that shard cannot be asked.

Every group belongs to one partition of ``__consumer_offsets``; ``TopicRuntime`` keeps those partitions.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from kohort.broker.clock import Clock
from kohort.broker.config_values import ConfigValues
from kohort.broker.journal import JournalWriter
from kohort.broker.memory import members_limit
from kohort.broker.partition_runtime import PartitionRuntime, Status
from kohort.broker.topic_runtime import TopicRuntime
from kohort.broker.topics import Topics, offsets_topic
from kohort.groups.availability import Absence, answer_while, heartbeat_error_while
from kohort.groups.classic.state import member_bytes
from kohort.groups.commands import Protocol, Request, TopicDeleted
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.groups.validate import check_group_id
from kohort.log.log import Storage
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, Instant, MemberId, ReplyTo, TopicName
from kohort.model.topics import CONSUMER_OFFSETS

_GROUPS_THAT_FILL_IT = 4  # one group may take a quarter of what all members may

NOBODY = ReplyTo(0)  # of a command that is only made to be answered for a shard that is absent


class GroupCoordinator:
    """The groups of this node, as soon as ``__consumer_offsets`` exists."""

    def __init__(
        self, topics: Topics, storage: Storage, configs: ConfigValues, clock: Clock, journal: JournalWriter
    ) -> None:
        self._topics = topics
        self._configs = configs
        self._clock = clock
        self.journal = journal
        self._groups: TopicRuntime[Shard] = TopicRuntime(
            storage, clock, self._make_shard, lambda events: journal.write(events)
        )
        self._creating: asyncio.Task[None] | None = None
        self._running = False
        self._members_limit = members_limit(configs)

    def start(self) -> None:
        """Begin to load what ``__consumer_offsets`` holds; requests are answered meanwhile."""
        self._running = True
        self.journal.start()
        topic = self._topics.get(CONSUMER_OFFSETS)
        if topic is not None:
            self._groups.open(topic)

    async def stop(self) -> None:
        """Answer everyone who waits, and forget the groups; the second call does nothing."""
        if not self._running:
            return
        self._running = False
        await self._groups.close()
        await self.journal.stop()

    async def ready(self) -> None:
        """Wait until everything that was being loaded is loaded, or waits for its next attempt."""
        await self._groups.ready()

    async def ensure_offsets_topic(self) -> None:
        """Create ``__consumer_offsets`` if there is none; requests that come meanwhile share the attempt.

        Kafka answers COORDINATOR_NOT_AVAILABLE and creates it in the background; a node that can do it
        by itself does it inside the request.
        """
        if self._groups.partitions:
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
            self._groups.open(topic or await self._topics.create(offsets_topic(self._configs)))
        finally:
            self._creating = None

    def ask(self, group_id: str, make: Callable[[ReplyTo], Request]) -> ReplyBody | asyncio.Future[Any]:
        """Ask the shard a group lives in; a shard that cannot be asked is answered for."""
        shard = self._groups.of(group_id)
        if shard is None or shard.status is not Status.ACTIVE:
            return answer_while(self._absence(shard), make(NOBODY), self.settings())
        answer: ReplyBody | asyncio.Future[Any] = shard.ask(make)
        return answer

    def ask_all(self, make: Callable[[ReplyTo], Request]) -> Iterator[ReplyBody | asyncio.Future[Any]]:
        """Ask every shard, one after the other; the caller may let others have their turn in between."""
        if not self._running:
            yield answer_while(Absence.STOPPED, make(NOBODY), self.settings())
            return
        for shard in list(self._groups.partitions):
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
        shard = self._groups.of(who[0])
        if shard is None or shard.status is not Status.ACTIVE:
            absence = self._absence(shard)
            wrong = ErrorCode.NONE if absence is Absence.STOPPED else check_group_id(who[0])
            return wrong or heartbeat_error_while(absence)
        return shard.shard.heartbeat(who, generation, instance_id, self._clock.now().instant)

    def has_memory_for(self, group_id: str, member_id: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether all groups together have room for a member that joins (again) with these protocols.

        The core keeps the bound of each group. A member that says no more than before is let in.
        """
        taken = sum(each.shard.state.members_bytes for each in self._groups.partitions)
        wanted = member_bytes(member_id, protocols)
        if taken + wanted <= self._members_limit:
            return True
        shard = self._groups.of(group_id)
        group = shard.shard.group(GroupId(group_id)) if shard is not None else None
        member = group.members.get(MemberId(member_id)) if group is not None else None
        return member is not None and wanted <= member_bytes(member.member_id, member.protocols)

    def _absence(self, shard: PartitionRuntime[Shard] | None) -> Absence:
        if not self._running:
            return Absence.STOPPED
        loading = shard is not None and shard.status is Status.LOADING
        return Absence.LOADING if loading else Absence.NOT_OWNED

    async def topic_deleted(self, topic: TopicName) -> None:
        """What groups have committed for a topic goes with it; a topic of that name may come again."""
        if topic == CONSUMER_OFFSETS:
            await self._groups.close()
        else:
            await asyncio.gather(*(shard.order(TopicDeleted(topic)) for shard in self._groups.partitions))

    def settings(self, max_batch_bytes: int = 0) -> GroupSettings:
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
            max_batch_bytes=max_batch_bytes,
        )

    def _make_shard(self, now: Instant, max_batch_bytes: int) -> Shard:
        return Shard(self.settings(max_batch_bytes), now)
