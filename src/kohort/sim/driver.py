"""Scenarios: a shard on virtual time, and members with short names, in sentences.

Every request returns the ``ReplyTo`` under which its answer will be in ``replies``::

    scenario = Scenario.stable(a=10_000, b=30_000)      # joined and synced; session timeouts
    again = scenario.join("b", changed=True)            # starts a rebalance; "a", the leader, is silent
    scenario.sleep(10_000)
    assert scenario.name_of(scenario.replies[again].leader) == "b"
    assert scenario.members == ["b"]
"""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from kohort.coordination.positions import Reply
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import (
    Command,
    CommitOffsets,
    CommitRow,
    FetchOffsets,
    FetchTopic,
    Join,
    Leave,
    Leaver,
    Request,
    Sync,
)
from kohort.groups.events import Event
from kohort.groups.replies import JoinReply, ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import (
    NO_TOPIC_ID,
    Generation,
    GroupId,
    InstanceId,
    MemberId,
    Partition,
    ReplyTo,
    TopicId,
    TopicName,
)
from kohort.records.record import Record
from kohort.sim.admin import Administrator
from kohort.sim.members import CommitOptions, JoinOptions, SenderFields, SimulatedMember, SyncOptions
from kohort.sim.node import SimulatedNode

_ROUNDS = 100  # of waiting for a generation, in ``settle``


class Scenario:
    """One story about a group (``"g"`` unless said otherwise), in virtual time."""

    def __init__(self, settings: GroupSettings | None = None, group: str = "g") -> None:
        self.node = SimulatedNode(settings or GroupSettings())
        self.group_id = GroupId(group)
        self._members: dict[tuple[str, str], SimulatedMember] = {}
        self._senders: dict[ReplyTo, SimulatedMember] = {}
        self._requests = 0
        self._fresh_ids = 0
        self._learnt = 0  # replies the members know of
        self.admin = Administrator(self)

    @classmethod
    def stable(cls, settings: GroupSettings | None = None, **sessions: int) -> "Scenario":
        """A stable group of members with these session timeouts; the first one leads."""
        scenario = cls(settings)
        for name, session_timeout in sessions.items():
            scenario.join(name, session_timeout=session_timeout)
        scenario.settle()
        return scenario

    # --- what one sees ------------------------------------------------------------------------

    @property
    def shard(self) -> Shard:
        """The shard itself."""
        return self.node.shard

    @property
    def group(self) -> Group:
        """The group the story is about; it must exist."""
        found = self.shard.group(self.group_id)
        assert found is not None, f"there is no group {self.group_id!r}"
        return found

    @property
    def exists(self) -> bool:
        """Whether there is such a group."""
        return self.shard.group(self.group_id) is not None

    @property
    def phase(self) -> Phase:
        """Where the group stands."""
        return self.group.phase

    def is_in(self, phase: Phase) -> bool:
        """Whether the group stands there now."""
        return self.group.phase is phase

    @property
    def members(self) -> list[str]:
        """Names of the members, in membership order."""
        return [self.name_of(member_id) for member_id in self.group.members]

    @property
    def leader(self) -> str | None:
        """Name of the leader."""
        return None if self.group.leader is None else self.name_of(self.group.leader)

    @property
    def now(self) -> int:
        """Milliseconds since the story began."""
        return self.node.clock.instant

    @property
    def replies(self) -> Mapping[ReplyTo, Any]:
        """What was answered so far, by request."""
        return self.node.replies

    @property
    def sent(self) -> Sequence[Reply[ReplyBody]]:
        """The same in the order it was sent."""
        return self.node.sent

    @property
    def events(self) -> Sequence[Event]:
        """All that became true."""
        return self.node.events

    @property
    def log(self) -> Sequence[Record]:
        """The records of ``__consumer_offsets``."""
        return self.node.log

    def is_parked(self, request: ReplyTo) -> bool:
        """Whether a request still waits."""
        return request not in self.node.replies

    def error(self, request: ReplyTo) -> ErrorCode:
        """The error a request was answered with."""
        error = self.node.replies[request].error
        assert isinstance(error, ErrorCode)
        return error

    def why(self, *kinds: type[Event]) -> list[str]:
        """The causes of all events, or of those of some kinds, as sentences."""
        return [str(event.cause) for event in self.events if not kinds or isinstance(event, kinds)]

    def member(self, name: str, group: str | None = None) -> SimulatedMember:
        """What is known of a member by its name; one that was never mentioned is new."""
        key = (group or self.group_id, name)
        return self._members.setdefault(key, SimulatedMember(name))

    def id_of(self, name: str) -> MemberId:
        """The member id a name has at the moment."""
        return self.member(name).member_id

    def name_of(self, member_id: MemberId) -> str:
        """Whose id this is; the id itself if it belongs to no member (any more)."""
        for member in self._members.values():
            if member.member_id == member_id:
                return member.name
        return member_id

    # --- what one does ------------------------------------------------------------------------

    def sleep(self, millis: int) -> None:
        """Let time pass; every timer fires at its time."""
        self.node.sleep(millis)
        self._learn()

    def hold_appends(self) -> None:
        """Let the log be slow: nothing is stored until ``release_appends``."""
        self.node.hold_appends()

    def release_appends(self, count: int | None = None) -> None:
        """Let the log catch up: with everything and from now on, or with ``count`` batches only."""
        self.node.release_appends(count)
        self._learn()

    def fail_next_append(self, error: ErrorCode) -> None:
        """Have the log refuse the next batch."""
        self.node.fail_next_append(error)

    def restart(self, settings: GroupSettings | None = None) -> None:
        """Die and come back: what the log has is loaded, everything else is forgotten."""
        self.node.restart(settings)

    def unload(self) -> None:
        """Hand the partition over."""
        self.node.unload()

    def order(self, command: Command) -> None:
        """Give the shard a command that is not a request."""
        self.node.handle(command)

    def settle(self) -> None:
        """Wait until the join phase is over, then have everyone sync: the group is stable."""
        for _ in range(_ROUNDS):
            if self.phase is not Phase.PREPARING_REBALANCE:
                break
            self.sleep(1_000)
        assert self.phase is Phase.COMPLETING_REBALANCE, f"no generation to sync in: {self.phase}"
        self.sync_all()

    def sync_all(self, group: str | None = None) -> dict[str, ReplyTo]:
        """Every member of the generation syncs, the leader first; requests by name."""
        found = self.shard.group(self.group_id_of(group))
        assert found is not None
        names = [self.name_of(member_id) for member_id in found.members]
        names.sort(key=lambda name: self.member(name, group).member_id != found.leader)
        options = SyncOptions(group=group) if group else SyncOptions()
        return {name: self.sync(name, **options) for name in names}

    # --- requests of members ------------------------------------------------------------------

    def join(self, name: str, **options: Unpack[JoinOptions]) -> ReplyTo:
        """Join as a client does: who is sent away with an id comes back with it at once.

        What is left out is as in the member's last join, so joining again changes nothing.
        """
        request = self.join_once(name, **options)
        reply = self.node.replies.get(request)
        if isinstance(reply, JoinReply) and reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            group = options.get("group")
            reason = options.get("reason")
            again = JoinOptions(reason=reason) if group is None else JoinOptions(reason=reason, group=group)
            return self.join_once(name, **again)
        return request

    def join_once(self, name: str, **options: Unpack[JoinOptions]) -> ReplyTo:
        """Send exactly one JoinGroup."""
        group = options.get("group")
        member = self.member(name, group)
        member.remember(options)
        self._fresh_ids += 1
        request = Join(
            reply_to=self.next_reply_to(member),
            group_id=self.group_id_of(group),
            member_id=member.member_id,
            instance_id=member.instance_id,
            protocol_type=member.protocol_type,
            protocols=member.protocols,
            session_timeout_ms=member.session_timeout,
            rebalance_timeout_ms=member.rebalance_timeout,
            client_id=member.client_id,
            client_host=member.client_host,
            reason=options.get("reason"),
            version=member.version,
            fresh_id=f"00000000-0000-4000-8000-{self._fresh_ids:012d}",
        )
        return self.send(request)

    def sync(
        self, name: str, assignments: Mapping[str, bytes] | None = None, **options: Unpack[SyncOptions]
    ) -> ReplyTo:
        """Ask for the assignment; the leader brings ``assignments`` by name, or ``b"for-<name>"`` for all."""
        member = self.member(name, options.get("group"))
        group_id, member_id, generation, instance_id = self._identity(member, options)
        version = options.get("version", 5)
        group = self.shard.group(group_id)
        if assignments is None:
            is_leader = group is not None and group.leader == member_id
            everyone = list(group.members) if group is not None and is_leader else []
            brought = tuple((each, f"for-{self.name_of(each)}".encode()) for each in everyone)
        else:
            brought = tuple(
                (self.member(each, options.get("group")).member_id or MemberId(each), given)
                for each, given in assignments.items()
            )
        protocol = group.protocol if group is not None else None
        request = Sync(
            reply_to=self.next_reply_to(member),
            group_id=group_id,
            member_id=member_id,
            generation=generation,
            instance_id=instance_id,
            protocol_type=options.get("protocol_type", member.protocol_type if version >= 5 else None),
            protocol_name=options.get("protocol_name", (protocol or "") if version >= 5 else None),
            assignments=brought,
            version=version,
        )
        return self.send(request)

    def heartbeat(self, name: str, **identity: Unpack[SenderFields]) -> ErrorCode:
        """Send a heartbeat; the answer never waits."""
        member = self.member(name, identity.get("group"))
        group_id, member_id, generation, instance_id = self._identity(member, identity)
        return self.shard.heartbeat((group_id, member_id), generation, instance_id, self.node.clock.instant)

    def leave(self, *names: str, reason: str | None = None, version: int = 5) -> ReplyTo:
        """One LeaveGroup for all ``names``."""
        leavers = (Leaver(self.id_of(name), self.member(name).instance_id, reason) for name in names)
        return self.leave_as(*leavers, version=version)

    def leave_as(self, *leavers: Leaver, group: str | None = None, version: int = 5) -> ReplyTo:
        """One LeaveGroup with exactly these entries."""
        group_id = self.group_id_of(group)
        return self.send(
            Leave(reply_to=self.next_reply_to(), group_id=group_id, leavers=leavers, version=version)
        )

    # --- offsets ------------------------------------------------------------------------------

    def commit(
        self,
        name: str | None,
        offsets: Mapping[tuple[str, int], int],
        **options: Unpack[CommitOptions],
    ) -> ReplyTo:
        """Commit as a member, or (``None``) from outside the membership, with generation -1."""
        member = self.member(name, options.get("group")) if name is not None else SimulatedMember("")
        group_id, member_id, generation, instance_id = self._identity(member, options)
        epoch, metadata = options.get("leader_epoch", -1), options.get("metadata")
        topic_id = options.get("topic_id", NO_TOPIC_ID)
        request = CommitOffsets(
            reply_to=self.next_reply_to(member),
            group_id=group_id,
            rows=tuple(
                CommitRow(TopicName(topic), Partition(partition), offset, epoch, metadata, topic_id)
                for (topic, partition), offset in offsets.items()
            ),
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            retention_ms=options.get("retention", -1),
            version=options.get("version", 10),
        )
        return self.send(request)

    def fetch(
        self,
        *partitions: tuple[str, int],
        group: str | None = None,
        require_stable: bool = False,
        topic_id: TopicId = NO_TOPIC_ID,
    ) -> ReplyTo:
        """Ask for committed offsets: of these partitions, or of all if none is named."""
        topics = tuple(
            FetchTopic(TopicName(topic), (Partition(partition),), topic_id) for topic, partition in partitions
        )
        request = FetchOffsets(
            reply_to=self.next_reply_to(),
            group_id=self.group_id_of(group),
            topics=topics or None,
            require_stable=require_stable,
        )
        return self.send(request)

    def committed(self, topic: str = "t", partition: int = 0, group: str | None = None) -> int:
        """The offset a fetch shows at once; -1 for none."""
        reply = self.replies[self.fetch((topic, partition), group=group)]
        offset = reply.rows[0].offset
        assert isinstance(offset, int)
        return offset

    # --- how it works -------------------------------------------------------------------------

    def send(self, request: Request) -> ReplyTo:
        """Send any request; ``reply_to`` names it."""
        self.node.handle(request)
        self._learn()
        return request.reply_to

    def next_reply_to(self, sender: SimulatedMember | None = None) -> ReplyTo:
        """A name for a request that is made by hand."""
        self._requests += 1
        name = ReplyTo(self._requests)
        if sender is not None:
            self._senders[name] = sender
        return name

    def _learn(self) -> None:
        """Members take over the ids and generations they received."""
        for reply_to, body, _ in self.node.sent[self._learnt :]:
            sender = self._senders.get(reply_to)
            if isinstance(body, JoinReply) and sender is not None and body.member_id:
                if body.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                    sender.member_id = body.member_id
                if not body.error:
                    sender.generation = body.generation
        self._learnt = len(self.node.sent)

    def group_id_of(self, group: str | None) -> GroupId:
        """The id of a group, of the one the story is about if none is named."""
        return self.group_id if group is None else GroupId(group)

    def _identity(
        self, member: SimulatedMember, given: SenderFields
    ) -> tuple[GroupId, MemberId, Generation, InstanceId | None]:
        instance = given.get("instance", member.instance_id)
        return (
            self.group_id_of(given.get("group")),
            MemberId(given.get("member_id", member.member_id)),
            Generation(given.get("generation", member.generation)),
            None if instance is None else InstanceId(instance),
        )
