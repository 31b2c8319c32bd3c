"""A classic group and its members (Kafka's GroupMetadata and MemberMetadata). Only ``apply`` writes here."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import CommitOffsets, FetchOffsets, Protocol
from kohort.groups.events import GroupImage, MemberImage
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, ReplyTo, TopicName, WallTime

CLASSIC = "classic"  # the type, as ListGroups shows it
CONSUMER = "consumer"  # the protocol type whose metadata names topics
UNKNOWN_TIME = WallTime(-1)
FIRST_GENERATION = Generation(0)
_ID_OVERHEAD = 1_000  # bytes a handed-out id costs apart from its text: a timer, and its place in some tables
_MEMBER_OVERHEAD = 2_000
_PROTOCOL_OVERHEAD = 200


@dataclass(slots=True, kw_only=True)
class Member:
    """One member of a group. Client id and host are those of the request that first made it."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]  # in the member's order of preference
    assignment: bytes = b""
    parked_join: ReplyTo | None = None
    parked_sync: ReplyTo | None = None
    is_new: bool = False  # never was in a generation: has 300 s, not its session timeout

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id (KIP-345) and so survives a missed join phase."""
        return self.instance_id is not None

    def metadata_for(self, protocol: str | None) -> bytes:
        """What it says about itself for ``protocol``; nothing if it does not offer that one."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


def id_bytes(member_id: str) -> int:
    """About the memory a handed-out member id takes."""
    return _ID_OVERHEAD + 2 * len(member_id)


def member_bytes(member_id: str, protocols: tuple[Protocol, ...]) -> int:
    """About the memory a member takes: its id, and what it says about itself for each protocol."""
    listed = sum(_PROTOCOL_OVERHEAD + len(name) + len(metadata) for name, metadata in protocols)
    return _MEMBER_OVERHEAD + 2 * len(member_id) + listed


@dataclass(slots=True, kw_only=True)
class Group:
    """One classic consumer group."""

    group_id: GroupId
    phase: Phase = Phase.EMPTY
    previous_phase: Phase = Phase.EMPTY
    state_timestamp: WallTime | None = None  # of the last transition; None: loaded from an old record
    protocol_type: str | None = None  # None: a simple group, known by its offsets alone
    protocol: str | None = None
    generation: Generation = FIRST_GENERATION  # the first completed join makes it 1
    leader: MemberId | None = None
    members: dict[MemberId, Member] = field(default_factory=dict)
    instances: dict[InstanceId, MemberId] = field(default_factory=dict)
    pending: dict[MemberId, None] = field(default_factory=dict)  # ids handed out, not yet used to join
    pending_sync: dict[MemberId, None] = field(default_factory=dict)  # have not asked for their assignment
    offers: dict[str, int] = field(default_factory=dict)  # protocol name → how many members list it
    awaiting_join: int = 0  # members with a parked join, so that "has everyone joined?" costs nothing
    members_bytes: int = 0  # memory its members and handed-out ids take, about
    new_member_added: bool = False  # a member came during the initial delay
    subscribed: frozenset[TopicName] | None = None  # None: the members' metadata does not say it

    @property
    def everyone_has_joined(self) -> bool:
        """All members have a parked join, and no handed-out id is still to come."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def is_initial(self) -> bool:
        """In the initial delay of a group that was empty: more members are waited for on purpose."""
        return self.phase is Phase.PREPARING_REBALANCE and self.previous_phase is Phase.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest any member wants to be waited for; 0 without members."""
        return max(0, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    def joined_members(self) -> Iterator[Member]:
        """Members whose join is parked, in membership order."""
        return (member for member in self.members.values() if member.parked_join is not None)

    def is_subscribed_to(self, topic: TopicName) -> bool:
        """Whether a member may be consuming ``topic``; unreadable subscriptions count as all topics."""
        if self.protocol_type != CONSUMER:
            return False
        return self.subscribed is None or topic in self.subscribed

    # --- what is asked about offsets ------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.phase is Phase.EMPTY

    @property
    def state_name(self) -> str:
        return self.phase.value

    @property
    def type_name(self) -> str:
        return CLASSIC

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    def check_commit(self, command: CommitOffsets) -> ErrorCode:
        """The table of offsets-and-log 2.3: the first line that fits decides."""
        if self.phase is Phase.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.phase is Phase.EMPTY and command.generation < 0:
            return ErrorCode.NONE
        if command.generation < 0 and not command.member_id and command.instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID  # not a member, and the group has some
        error = self.fence(command.member_id, command.instance_id)
        if error:
            return error
        if command.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        is_completing = self.phase is Phase.COMPLETING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_completing else ErrorCode.NONE

    def check_fetch(self, command: FetchOffsets) -> ErrorCode:
        """Everyone may see the offsets of a classic group."""
        return ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        if self.phase is Phase.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.phase is not Phase.EMPTY and self.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP  # only its members know what it consumes
        return ErrorCode.NONE

    @property
    def may_expire_offsets(self) -> bool:
        if self.phase is Phase.EMPTY:
            return True
        return self.phase is Phase.STABLE and self.protocol_type == CONSUMER and self.subscribed is not None

    def is_consuming(self, topic: TopicName) -> bool:
        return self.phase is Phase.STABLE and self.is_subscribed_to(topic)

    @property
    def unused_since(self) -> WallTime | None:
        """A group that was used lives on from when it became empty, whatever its last commits were."""
        return self.state_timestamp if self.protocol_type is not None and self.phase is Phase.EMPTY else None

    def session_kept_by_commit(self, member_id: MemberId) -> int | None:
        return None if self.phase is Phase.EMPTY else self.members[member_id].session_timeout_ms

    def fence(self, member_id: MemberId, instance_id: InstanceId | None) -> ErrorCode:
        """NONE if these ids name a member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a replaced id."""
        if instance_id is not None:
            owner = self.instances.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def image(self, assignments: dict[MemberId, bytes] | None = None) -> GroupImage:
        """The group as it would be stored now, with ``assignments`` instead of those the members hold."""
        return GroupImage(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp=UNKNOWN_TIME if self.state_timestamp is None else self.state_timestamp,
            members=tuple(
                MemberImage(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata_for(self.protocol),
                    assignment=(
                        member.assignment if assignments is None else assignments.get(member.member_id, b"")
                    ),
                )
                for member in self.members.values()
            ),
        )
