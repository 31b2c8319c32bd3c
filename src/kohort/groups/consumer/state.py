"""A consumer group and its members. ``apply`` writes here; heartbeats and the loader keep notes beside it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kohort.assign.server.group import NO_PARTITIONS, TopicPartitions
from kohort.groups.commands import CommitOffsets, ComputeTarget, FetchOffsets
from kohort.groups.consumer.assignment import CurrentAssignment
from kohort.groups.consumer.events import ConsumerMemberDetails, MemberSubscription, ResolvedExpression
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, Instant, MemberId, Partition, TopicId, TopicName, WallTime

CONSUMER_TYPE = "consumer"
EPOCHS_IN_COMMITS_SINCE = 9  # the version of OffsetCommit
_MEMBER_OVERHEAD = 2_000  # bytes a member takes apart from what it says
_NAME_OVERHEAD = 60


@dataclass(slots=True)
class ConsumerMember:
    """One member: what it says about itself, and what it has."""

    member_id: MemberId
    details: ConsumerMemberDetails = field(default_factory=ConsumerMemberDetails)
    current: CurrentAssignment = field(default_factory=CurrentAssignment)

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol (modern-groups 14.2)."""
        return self.details.classic is not None

    def check_epoch(self, received: int) -> ErrorCode:
        """Whether a request about offsets has the epoch that the member received last."""
        if received == self.current.member_epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if self.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def details_bytes(member_id: str, details: ConsumerMemberDetails) -> int:
    """About the memory that a member takes."""
    names = sum(_NAME_OVERHEAD + len(name) for name in details.names)
    protocols = sum(_NAME_OVERHEAD + len(each.metadata) for each in details.protocols)
    return _MEMBER_OVERHEAD + 2 * len(member_id) + len(details.expression) + names + protocols


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """One consumer group (modern-groups 1)."""

    group_id: GroupId
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[MemberId, ConsumerMember] = field(default_factory=dict)
    instances: dict[InstanceId, MemberId] = field(default_factory=dict)
    targets: dict[MemberId, TopicPartitions] = field(default_factory=dict)
    expressions: dict[str, ResolvedExpression] = field(default_factory=dict)
    owners: dict[TopicId, dict[Partition, MemberId]] = field(default_factory=dict)
    subscriptions: Counter[MemberSubscription] = field(default_factory=Counter)  # how many members have each
    has_partition_metadata: bool = False  # the log has a record of type 4, from Kafka 4.0 or older
    members_bytes: int = 0
    # What heartbeats note beside the events: it is not stored, and begins afresh when a group is loaded.
    seen_changes: int = -1  # how many changes of topics were looked at
    is_resolving: bool = False  # an answer to ``ResolveExpressions`` is to come
    resolved_at: Instant | None = None  # when ``ResolveExpressions`` was asked for last
    assigning: ComputeTarget | None = None  # what is asked: an answer is to come
    cannot_assign: bool = False  # the newest answer was none; the next heartbeat that needs a target says so
    topics_cache: frozenset[TopicName] | None = None

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        """Kafka's name for the state of the group."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.current.is_reconciled(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def epoch_to_join(self) -> int:
        """The epoch that classic members are sent to: while a target is computed there is no newer one."""
        return self.epoch if self.assigning is None else self.target_epoch

    @property
    def type_name(self) -> str:
        return CONSUMER_TYPE

    @property
    def listed_protocol_type(self) -> str:
        return CONSUMER_TYPE

    # --- who and what ---------------------------------------------------------------------------

    def fence(self, member_id: MemberId, instance_id: InstanceId | None) -> ErrorCode:
        """NONE if these ids name a member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a replaced id."""
        if instance_id is not None:
            owner = self.instances.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def owner(self, topic: TopicId, partition: Partition) -> MemberId | None:
        """The member that has the partition, or has yet to give it up."""
        return self.owners.get(topic, {}).get(partition)

    def is_owned(self, topic: TopicId, partition: Partition) -> bool:
        return partition in self.owners.get(topic, ())

    def target_of(self, member_id: MemberId) -> TopicPartitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def users_of(self, expression: str) -> int:
        """How many members subscribe with this expression."""
        return sum(count for each, count in self.subscriptions.items() if each.expression == expression)

    def used_expressions(self) -> tuple[str, ...]:
        """The expressions of all members, each once, in order."""
        return tuple(sorted({each.expression for each in self.subscriptions if each.expression}))

    def topics_of(self, subscription: MemberSubscription) -> Iterator[TopicName]:
        """The topics that are subscribed to, existing or not, some perhaps twice."""
        yield from subscription.names
        resolved = self.expressions.get(subscription.expression) if subscription.expression else None
        if resolved is not None:
            yield from resolved.topics

    def subscribed(
        self, subscriptions: Mapping[MemberSubscription, int] | None = None
    ) -> frozenset[TopicName]:
        """The topics of all members, or of these subscriptions."""
        if subscriptions is not None and subscriptions.keys() != self.subscriptions.keys():
            return frozenset(name for each in subscriptions for name in self.topics_of(each))
        if self.topics_cache is None:
            self.topics_cache = frozenset(
                name for each in self.subscriptions for name in self.topics_of(each)
            )
        return self.topics_cache

    def preferred_assignor(
        self, assignors: tuple[str, ...], subscriptions: Mapping[MemberSubscription, int] | None = None
    ) -> str:
        """The assignor that most members name; the first of the configured ones if no member names any."""
        votes: Counter[str | None] = Counter()
        for each, count in (self.subscriptions if subscriptions is None else subscriptions).items():
            votes[each.server_assignor] += count
        return max(assignors, key=lambda name: votes[name])

    def has_room(self, member_id: MemberId, details: ConsumerMemberDetails, max_bytes: int) -> bool:
        """Whether a member with these details fits into memory beside the others. Kafka has its heap.

        A member that says no more than before is let in.
        """
        known = self.members.get(member_id)
        if known is not None and known.details is details:
            return True
        has = 0 if known is None else details_bytes(member_id, known.details)
        wanted = details_bytes(member_id, details)
        return wanted <= has or self.members_bytes - has + wanted <= max_bytes

    # --- what is asked about offsets --------------------------------------------------------------

    def check_commit(self, command: CommitOffsets) -> ErrorCode:
        """Whether this commit is taken: of a member with its epoch, or of an administrator if it is empty."""
        if command.generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and command.version < EPOCHS_IN_COMMITS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        return member.check_epoch(command.generation)

    def check_fetch(self, command: FetchOffsets) -> ErrorCode:
        """Whether offsets are shown: to members with their epoch, and to those who name no member."""
        if command.member_id is None and command.member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(command.member_id or MemberId(""))
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member.check_epoch(command.member_epoch)

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: TopicName) -> bool:
        return topic in self.subscribed()

    @property
    def may_expire_offsets(self) -> bool:
        return True

    def is_consuming(self, topic: TopicName) -> bool:
        """Whether offsets of the topic are kept whatever their age."""
        return self.is_subscribed_to(topic)

    @property
    def unused_since(self) -> WallTime | None:
        """Offsets of a consumer group expire by their own age."""
        return None

    def session_kept_by_commit(self, member_id: MemberId) -> int | None:
        """A commit keeps no session of a consumer group alive."""
        return None
