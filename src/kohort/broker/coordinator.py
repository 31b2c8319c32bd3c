"""The group coordinator: which shard a group lives in, and what is answered while that shard cannot be asked.

Every group belongs to one partition of ``__consumer_offsets``; ``TopicRuntime`` keeps those partitions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from kohort.broker.clock import pause
from kohort.broker.expressions import Matches, resolve
from kohort.broker.group_configs import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.journal import JournalWriter
from kohort.broker.memory import members_limit
from kohort.broker.partition_runtime import PartitionRuntime, Status, Waiter
from kohort.broker.topic_runtime import TopicRuntime
from kohort.broker.topics import ServedTopic, offsets_topic
from kohort.cluster.view import ChangeReason, Placed, PlacedNode
from kohort.groups.availability import Absence, answer_while, heartbeat_error_while
from kohort.groups.classic.state import member_bytes
from kohort.groups.commands import (
    ComputeTarget,
    ConsumerHeartbeat,
    Effect,
    ExpressionsResolved,
    GroupConfigured,
    Protocol,
    Request,
    ResolveExpressions,
    Resume,
    TargetReady,
    TopicDeleted,
    TopicImage,
    TopicsChanged,
)
from kohort.groups.consumer.assigning import answer
from kohort.groups.consumer.state import ConsumerMember
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings, MigrationPolicy
from kohort.groups.shard import Shard
from kohort.groups.state import State
from kohort.groups.takeover import Takeover
from kohort.groups.validate import check_group_id
from kohort.log.background import persist, report
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import (
    Generation,
    GroupId,
    InstanceId,
    Instant,
    LeaderEpoch,
    MemberId,
    ReplyTo,
    TopicName,
)
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import partition_for
from kohort.security.acls import AclResourceType, Operation, Question, host_text
from kohort.security.listeners import split_list

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

T = TypeVar("T")

_QUESTION_PRICE = 5  # of one topic for the authorizer
_GROUPS_THAT_FILL_IT = 4  # one group may take a quarter of what all members may

NO_REPLY = ReplyTo(0)  # of a command that is only made to be answered for a shard that is absent


class GroupCoordinator:
    """The groups of this node, as soon as ``__consumer_offsets`` exists."""

    def __init__(self, broker: "BrokerState", journal: JournalWriter) -> None:
        self._topics = broker.topics
        self._catalog = broker.catalog
        self._configs = broker.configs
        self._clock = broker.clock
        self._deletion_time = broker.deletion_time
        self._heavy_work = broker.heavy_work
        self._authorizer = broker.authorizer
        self.journal = journal
        self._groups: TopicRuntime[Shard] = TopicRuntime(
            broker.storage, self._clock, self._make_shard, lambda events: journal.write(events), self._perform
        )
        self._groups.cluster = broker.catalog
        broker.catalog.on_resume(self.resume)
        self._creating: asyncio.Task[None] | None = None
        self._effects: set[asyncio.Task[None]] = set()
        self._running = False
        self._members_limit = members_limit(self._configs)
        self._taken_over: dict[int, LeaderEpoch] = {}  # shards of other nodes, with the epoch of the take
        self._is_shared = broker.settings.cluster is not None
        self._topics_version = self._next_topics_version(-1)

    def start(self) -> None:
        """Begin to load what ``__consumer_offsets`` holds; requests are answered meanwhile."""
        self._running = True
        self.journal.start()
        topic = self._topics.get(CONSUMER_OFFSETS)
        if topic is not None:
            self._groups.follow(topic)

    async def stop(self) -> None:
        """Answer everyone who waits, and forget the groups; the second call does nothing."""
        if not self._running:
            return
        self._running = False
        for task in self._effects:
            task.cancel()
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
        if self._topics.get(CONSUMER_OFFSETS) is not None:
            return
        if self._creating is None:
            self._creating = asyncio.get_running_loop().create_task(
                self._create_offsets_topic(), name="kohort create offsets topic"
            )
        # The client may hang up; the others who share this attempt have not.
        await asyncio.shield(self._creating)

    async def _create_offsets_topic(self) -> None:
        try:
            await self._topics.create(offsets_topic(self._configs))
        except RefusedError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # a Metadata request made it meanwhile
                raise
        finally:
            self._creating = None

    def ask(
        self, group_id: str, make: Callable[[ReplyTo], Request], waiter: Waiter | None = None
    ) -> ReplyBody | Waiter:
        """Ask the shard a group lives in; a shard that cannot be asked is answered for.

        A reply that has to wait is given to ``waiter``; without one, it is a future of it that is returned.
        """
        shard = self._groups.of(group_id)
        if shard is None or shard.status is not Status.ACTIVE:
            return answer_while(self._absence(shard, group_id), make(NO_REPLY), self.settings())
        answer: ReplyBody | Waiter = shard.ask(make, waiter)
        return answer

    def ask_all(self, make: Callable[[ReplyTo], Request]) -> Iterator[ReplyBody | asyncio.Future[Any]]:
        """Ask every shard, one after the other; the caller may let others have their turn in between."""
        if not self._running:
            yield answer_while(Absence.STOPPED, make(NO_REPLY), self.settings())
            return
        for shard in list(self._groups.partitions.values()):
            if shard.status is Status.ACTIVE:
                yield shard.ask(make)
            else:
                yield answer_while(self._absence(shard), make(NO_REPLY), self.settings())

    def heartbeat(
        self,
        who: tuple[GroupId, MemberId],
        generation: Generation,
        instance_id: InstanceId | None,
    ) -> ErrorCode:
        """The commonest request: no command, no events, no reply object; one deadline moves."""
        shard = self._groups.of(who[0])
        if shard is None or shard.status is not Status.ACTIVE:
            absence = self._absence(shard, who[0])
            wrong = ErrorCode.NONE if absence is Absence.STOPPED else check_group_id(who[0])
            return wrong or heartbeat_error_while(absence)
        return shard.shard.heartbeat(who, generation, instance_id, self._clock.instant())

    def quiet_heartbeat(self, command: ConsumerHeartbeat) -> int | None:
        """The interval to the next heartbeat of a member of a consumer group, if this one needs no more."""
        shard = self._groups.of(command.group_id)
        if shard is None or shard.status is not Status.ACTIVE:
            return None
        return shard.shard.quiet_heartbeat(command, self._clock.instant())

    def has_memory_for(self, group_id: str, member_id: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether all groups together have room for a member that joins (again) with these protocols.

        The core keeps the bound of each group. A member that says no more than before is let in.
        """
        taken = sum(each.shard.state.members_bytes for each in self._groups.partitions.values())
        wanted = member_bytes(member_id, protocols)
        if taken + wanted <= self._members_limit:
            return True
        shard = self._groups.of(group_id)
        group = shard.shard.state.groups.get(GroupId(group_id)) if shard is not None else None
        member = group.members.get(MemberId(member_id)) if group is not None else None
        if isinstance(member, ConsumerMember):
            return member.is_classic and wanted <= member_bytes(member_id, member.details.protocols)
        return member is not None and wanted <= member_bytes(member_id, member.protocols)

    def has_memory_for_consumer(self, group_id: str, member_id: str, size: int) -> bool:
        """Whether all groups together have room for a consumer member that says ``size`` bytes of itself.

        A member that is in stays in; the core keeps the bound of each group.
        """
        taken = sum(each.shard.state.members_bytes for each in self._groups.partitions.values())
        if taken + size <= self._members_limit:
            return True
        shard = self._groups.of(group_id)
        group = shard.shard.state.groups.get(GroupId(group_id)) if shard is not None else None
        return group is not None and MemberId(member_id) in group.members

    def group_count(self) -> int:
        """How many groups there are."""
        return sum(len(each.shard.state.groups) for each in self._groups.partitions.values())

    def state_of(self, group_id: str) -> State | None:
        """The state of the shard that a group lives in, to look at."""
        runtime = self._groups.of(group_id)
        return runtime.shard.state if runtime is not None else None

    def resume(self, silent_ms: int) -> None:
        """Nothing was answered for a while: members could not be heard."""
        for shard in self._groups.partitions.values():
            if shard.status is Status.ACTIVE:
                shard.tell(Resume(silent_ms))

    def _absence(self, shard: PartitionRuntime[Shard] | None, group_id: str = "") -> Absence:
        if not self._running:
            return Absence.STOPPED
        loading = shard.status is Status.LOADING if shard is not None else self._is_coming(group_id)
        return Absence.LOADING if loading else Absence.NOT_OWNED

    def _is_coming(self, group_id: str) -> bool:
        """Whether the shard of a group is led here, though its log is not open yet."""
        placed = self._placed(group_id)
        return placed is not None and placed.leader == self._catalog.session

    def coordinator_of(self, group_id: str) -> PlacedNode | None:
        """The node that coordinates a group; ``None`` while there is none."""
        placed = self._placed(group_id)
        return None if placed is None else self._catalog.view.leader_of(placed)

    def _placed(self, group_id: str) -> Placed | None:
        topic = self._topics.get(CONSUMER_OFFSETS)
        return None if topic is None else topic.placed[partition_for(group_id, topic.partitions)]

    async def topic_deleted(self, topic: TopicName) -> None:
        """What groups have committed for a topic goes with it; a topic of that name may come again."""
        if topic == CONSUMER_OFFSETS:
            await self._groups.close()
        else:
            await asyncio.gather(
                *(shard.order(TopicDeleted(topic)) for shard in self._groups.partitions.values())
            )

    def topic_followed(self, topic: ServedTopic, *, is_new: bool) -> None:
        """A topic has changed. Shards hear of one that ``is_new``: it was created or has more partitions."""
        if topic.name == CONSUMER_OFFSETS and self._running:
            self._groups.follow(topic)
        if is_new:
            self._topic_changed(topic)

    def _topic_changed(self, topic: ServedTopic) -> None:
        self._topics_version = self._next_topics_version(self._topics_version)
        changed = TopicsChanged((_image(topic),), self._topics_version)
        for shard in self._groups.partitions.values():
            shard.tell(changed)

    def _next_topics_version(self, last: int) -> int:
        """What a group stores with the topics that match its expressions: it grows over restarts.

        Nodes that share a database count by its version, which is the same for all of them.
        """
        if self._is_shared:
            return max(last, self._catalog.view.version)
        return max(last + 1, self._clock.now().wall)

    def group_configured(self, group: str, configs: Mapping[str, str]) -> None:
        """The configs of a group were replaced."""
        shard = self._groups.of(group)
        if shard is not None:
            shard.tell(_configured(group, configs))

    def _perform(self, shard: PartitionRuntime[Shard], effect: object) -> None:
        assert isinstance(effect, Effect)
        match effect:
            case ResolveExpressions():
                work = self._resolve(shard, effect)
            case ComputeTarget():
                work = self._assign(shard, effect)
            case _:
                assert_never(effect)
        task = asyncio.get_running_loop().create_task(work)
        self._effects.add(task)
        task.add_done_callback(self._effects.discard)

    async def _assign(self, shard: PartitionRuntime[Shard], asked: ComputeTarget) -> None:
        """Run an assignor in a thread; after a bug the shard gets its answer, too, and may ask again."""
        what = f"assignor {asked.assignor} of group {asked.group_id}"
        ready = await self._persist(what, lambda: self._heavy_work.call(lambda: answer(asked)))
        shard.tell(ready or TargetReady(asked, None))

    async def _resolve(self, shard: PartitionRuntime[Shard], asked: ResolveExpressions) -> None:
        """Match expressions in a thread; after a bug the shard gets its answer, too, and may ask again."""
        version = self._topics_version
        names = [topic.name for topic in self._topics]

        async def match() -> Matches:
            matches = await self._heavy_work.call(lambda: resolve(asked.expressions, names))
            return await self._describable(asked, matches)

        found = await self._persist(f"the match of the regular expressions of group {asked.group_id}", match)
        shard.tell(ExpressionsResolved(asked.group_id, found or (), version, asked.started_at))

    async def _persist(self, what: str, work: Callable[[], Awaitable[T]]) -> T | None:
        """What ``work`` returns, tried again after a fault of the machine; None after a bug."""

        async def attempt() -> T | None:
            try:
                return await work()
            except (OSError, MemoryError):
                raise
            except Exception as error:
                report(what, error)
                return None

        return await persist(partial(pause, self._clock), what, attempt)

    async def _describable(self, asked: ResolveExpressions, matches: Matches) -> Matches:
        """Without the topics that the member whose heartbeat asked may not describe."""
        authorizer = self._authorizer
        if authorizer is None:
            return matches
        host, slice_ = host_text(asked.client_host[1:]), WorkSlice()
        allowed: dict[TopicName, bool] = {}
        for name in {name for _, names in matches for name in names}:
            question = Question(asked.principal, host, Operation.DESCRIBE, AclResourceType.TOPIC, name)
            allowed[name] = authorizer.may(question)
            await slice_.spend(_QUESTION_PRICE)
        return tuple((expression, tuple(filter(allowed.get, names))) for expression, names in matches)

    def settings(self, max_batch_bytes: int = 0) -> GroupSettings:
        """Limits and times for the core; read when a shard is made."""
        number, text = self._configs.number, self._configs.text
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
            consumer_session_timeout_ms=number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
            consumer_max_size=number("group.consumer.max.size"),
            consumer_assignors=tuple(split_list(text("group.consumer.assignors"))),
            consumer_migration_policy=MigrationPolicy(text("group.consumer.migration.policy").lower()),
            consumer_regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
        )

    def _make_shard(self, now: Instant, max_batch_bytes: int, partition: int) -> Shard:
        topics = TopicsChanged(tuple(map(_image, self._topics)), self._topics_version)
        configs = (_configured(group, own) for group, own in self._catalog.group_configs.items())
        shard = Shard(self.settings(max_batch_bytes), now, topics, configs, self._deletion_time)
        takeover = self._takeover(partition, now)
        if takeover is not None:
            shard.take_over(takeover)
        return shard

    def _takeover(self, partition: int, now: Instant) -> Takeover | None:
        """That another node coordinated a shard before this one; said once, not after each load."""
        topic = self._topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return None
        placed = topic.placed[partition]
        change, last = placed.change, self._taken_over.get(partition)
        if change is None or change.from_node is None or placed.leader_epoch == last:
            return None
        self._taken_over[partition] = placed.leader_epoch
        return None if change.reason is ChangeReason.AGAIN else Takeover(self._catalog.node_id, change, now)


def _image(topic: ServedTopic) -> TopicImage:
    return TopicImage(topic.topic_id, topic.name, topic.partitions)


def _configured(group: str, own: Mapping[str, str]) -> GroupConfigured:
    def number(name: str) -> int | None:
        return int(own[name]) if name in own else None

    return GroupConfigured(GroupId(group), number(SESSION_TIMEOUT), number(HEARTBEAT_INTERVAL))
