"""Consumers of a simulation: what a process of a group sends, and how it takes the answers."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.assign.assignor import RebalanceProtocol
from kohort.assign.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.assign.registry import choose_assignors, rebalance_protocol
from kohort.groups.commands import (
    NO_GENERATION,
    NO_MEMBER,
    ConsumerHeartbeat,
    Join,
    Leave,
    Leaver,
    OwnedTopic,
    Protocol,
    Sync,
)
from kohort.groups.replies import ConsumerHeartbeatReply, JoinReply, ReplyBody, SyncReply
from kohort.lake.whatif.happenings import Seat
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from kohort.lake.whatif.replay import Simulation

SLOW_POLL_REASON = "consumer poll timeout has expired."  # Java's consumer says so when it leaves by itself


class MemberProcess(ABC):
    """A process that is a member, or wants to be one."""

    def __init__(self, world: "Simulation", seat: Seat, dice: random.Random) -> None:
        self.world = world
        self.seat = seat
        self.dice = dice
        self.topics = seat.topics
        self.owned: frozenset[TopicPartition] = frozenset()
        self.member_id = NO_MEMBER
        self.is_alive = True
        self.is_content = False  # in the group, with nothing to do but send heartbeats
        self._silent_until = 0
        self._polls_at = 0
        self._beats = 0  # the rhythm that counts; an older one ends by itself

    # --- what happens to it ---------------------------------------------------------------------

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def leave(self, reason: str | None = None) -> None: ...

    @abstractmethod
    def beat(self) -> None: ...

    @abstractmethod
    def subscribe(self, topics: tuple[str, ...]) -> None: ...

    @abstractmethod
    def see_topic(self, topic: str) -> None:
        """A topic has other partitions, which clients learn with their next metadata."""

    def fall_silent(self, millis: int) -> None:
        """Nothing goes out or comes in for a while."""
        self._silent_until = self._polls_at = self.world.now + millis
        self.world.later(millis, self._wake)

    def _wake(self) -> None:
        if self.is_alive:
            self.beat()

    def poll_slowly(self, millis: int) -> None:
        """The application takes long with what it has; the consumer leaves by itself after a while."""
        limit = self.world.settings.max_poll_interval_ms
        self._polls_at = self.world.now + millis
        self.world.later(min(limit, millis), lambda: self._give_up() if millis > limit else None)

    def _give_up(self) -> None:
        if not self.is_alive:
            return
        self._beats += 1
        self.is_content = False
        left = self._polls_at - self.world.now
        self.leave_when_slow()
        self.lose()
        self.world.later(left, self._return)

    @abstractmethod
    def leave_when_slow(self) -> None:
        """What a consumer says when it gives up its membership by itself."""

    def _return(self) -> None:
        if self.is_alive:
            self.start()

    def lose(self) -> None:
        """It is no member any more and has nothing."""
        self.owned = frozenset()
        self.member_id = NO_MEMBER

    # --- parts ----------------------------------------------------------------------------------

    @property
    def instance(self) -> InstanceId | None:
        return None if self.seat.instance_id is None else InstanceId(self.seat.instance_id)

    @property
    def is_silent(self) -> bool:
        return self.world.now < self._silent_until

    def wait_ms(self) -> int:
        """Until the application calls ``poll()`` next and the consumer can act."""
        return max(self.world.reaction_ms(self.dice), self._polls_at - self.world.now)

    def keep_beating(self, interval: int, *, at_once: bool = False) -> None:
        """A rhythm of heartbeats, in the place of the one that was."""
        self._beats += 1
        rhythm = self._beats

        def tick() -> None:
            if not self.is_alive or rhythm != self._beats:
                return
            self.world.later(interval, tick, is_beat=True)
            if not self.is_silent:
                self.beat()

        first = 0 if at_once else self.dice.randrange(max(interval, 1))
        self.world.later(first, tick, is_beat=True)

    def while_awake(self, act: Callable[[ReplyBody], None]) -> Callable[[ReplyBody], None]:
        """Take a reply when it can be received, if the process still lives then."""

        def take(reply: ReplyBody) -> None:
            if not self.is_alive:
                return
            if self.is_silent:
                self.world.later(self._silent_until - self.world.now, lambda: take(reply))
            else:
                act(reply)

        return take


class ClassicClient(MemberProcess):
    """Speaks JoinGroup and SyncGroup; eager or cooperative, as its assignor is."""

    def __init__(self, world: "Simulation", seat: Seat, dice: random.Random) -> None:
        super().__init__(world, seat, dice)
        (self._assignor,) = choose_assignors([world.settings.assignor])
        self._is_cooperative = rebalance_protocol([self._assignor]) is RebalanceProtocol.COOPERATIVE
        self._generation = NO_GENERATION
        self._joins = False  # a join is on its way, or will be
        self._leads = False

    def start(self) -> None:
        self._join()

    def leave(self, reason: str | None = None) -> None:
        if self.member_id:
            leaver = Leaver(self.member_id, self.instance, reason)
            self.world.ask(
                lambda to: Leave(reply_to=to, group_id=self.world.group_id, leavers=(leaver,)), lambda _: None
            )

    def leave_when_slow(self) -> None:
        if self.seat.instance_id is None:  # a static one only falls silent
            self.leave(SLOW_POLL_REASON)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._join_later()

    def see_topic(self, topic: str) -> None:
        if self.is_alive and self._leads and topic in self.topics:
            self._join_later()

    def lose(self) -> None:
        super().lose()
        self._generation = NO_GENERATION
        self._joins = self._leads = False

    def beat(self) -> None:
        """Ask whether all is well."""
        if self._generation == NO_GENERATION or self._joins:
            return
        who = (self.world.group_id, self.member_id)
        error = self.world.node.shard.heartbeat(
            who, self._generation, self.instance, self.world.node.clock.instant
        )
        match error:
            case ErrorCode.NONE:
                pass
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self.lose()
                self._join_later()
            case _:
                self._join_later()

    def _join_later(self) -> None:
        if not self._joins:
            self._joins, self.is_content = True, False
            self.world.later(self.wait_ms(), self._join)

    def _join(self) -> None:
        if not self.is_alive or self.is_silent:
            return
        self._joins, self.is_content = True, False
        if not self._is_cooperative:
            self.owned = frozenset()
        self._ask_to_join()

    def _ask_to_join(self) -> None:
        topics = tuple(map(TopicName, self.topics))
        wish = Subscription(
            topics, self._assignor.subscription_user_data(topics), tuple(sorted(self.owned)), self._generation
        )
        settings = self.world.settings
        self.world.ask(
            lambda to: Join(
                reply_to=to,
                group_id=self.world.group_id,
                member_id=self.member_id,
                instance_id=self.instance,
                protocols=(Protocol(self._assignor.name, encode_subscription(wish)),),
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.max_poll_interval_ms,
                client_id=self.seat.client_id,
                client_host=self.seat.host,
                fresh_id=f"{self.dice.getrandbits(64):016x}",
            ),
            self.while_awake(self._joined),
        )

    def _joined(self, reply: ReplyBody) -> None:
        assert isinstance(reply, JoinReply)
        match reply.error:
            case ErrorCode.NONE:
                self._sync(reply)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self._ask_to_join()
            case _:
                self.lose()
                self._join_later()

    def _sync(self, reply: JoinReply) -> None:
        self.member_id, self._generation = reply.member_id, reply.generation
        self._leads = reply.leader == reply.member_id
        brought: tuple[tuple[MemberId, bytes], ...] = ()
        if self._leads and not reply.skip_assignment:
            wishes = {one.member_id: decode_subscription(one.metadata) for one in reply.members}
            plan = self._assignor.assign(self.world.cluster(), wishes)
            brought = tuple((member, encode_assignment(share)) for member, share in plan.items())
        self._joins = False
        self.keep_beating(self.world.settings.heartbeat_interval_ms)
        self.world.ask(
            lambda to: Sync(
                reply_to=to,
                group_id=self.world.group_id,
                member_id=self.member_id,
                generation=self._generation,
                instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=reply.protocol_name,
                assignments=brought,
            ),
            self.while_awake(self._synced),
        )

    def _synced(self, reply: ReplyBody) -> None:
        assert isinstance(reply, SyncReply)
        if self._joins:
            return  # it has heard of the next rebalance meanwhile
        match reply.error:
            case ErrorCode.NONE:
                share = decode_assignment(reply.assignment) if reply.assignment else Assignment()
                given = frozenset(share.partitions)
                revoked = self.owned - given
                self.owned = given
                self._assignor.on_assignment(share, Generation(self._generation))
                self.is_content = True
                if revoked and self._is_cooperative:
                    self._join_later()
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self.lose()
                self._join_later()
            case _:
                self._join_later()


class ConsumerClient(MemberProcess):
    """Speaks ConsumerGroupHeartbeat (KIP-848)."""

    def __init__(self, world: "Simulation", seat: Seat, dice: random.Random) -> None:
        super().__init__(world, seat, dice)
        self._epoch = 0
        self._target: frozenset[TopicPartition] | None = None  # what it shall have and works on

    def start(self) -> None:
        self._target = None
        self.member_id = MemberId(f"{self.seat.name}-{self.dice.getrandbits(64):016x}")
        self._epoch = 0
        self._heartbeat(is_full=True)
        self.keep_beating(self.world.settings.heartbeat_interval_ms)

    def leave(self, reason: str | None = None) -> None:
        self._epoch = -1 if self.seat.instance_id is None else -2
        self._heartbeat()

    def leave_when_slow(self) -> None:
        self.leave()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._heartbeat(is_full=True)

    def see_topic(self, topic: str) -> None:
        """The coordinator sees to that."""

    def beat(self) -> None:
        if self.member_id and not self.is_silent:
            self._heartbeat()

    def _heartbeat(self, *, is_full: bool = False) -> None:
        by_topic: dict[TopicName, list[Partition]] = {}
        for topic, partition in sorted(self.owned):
            by_topic.setdefault(topic, []).append(partition)
        owned = tuple(
            OwnedTopic(self.world.node.topics[topic].topic_id, tuple(those))
            for topic, those in by_topic.items()
        )
        self.world.ask(
            lambda to: ConsumerHeartbeat(
                reply_to=to,
                group_id=self.world.group_id,
                member_id=self.member_id,
                member_epoch=self._epoch,
                instance_id=self.instance,
                rebalance_timeout_ms=self.world.settings.max_poll_interval_ms if is_full else -1,
                names=tuple(map(TopicName, self.topics)) if is_full else None,
                owned=owned,
                client_id=self.seat.client_id,
                client_host=self.seat.host,
            ),
            self.while_awake(self._answered),
        )

    def _answered(self, reply: ReplyBody) -> None:
        assert isinstance(reply, ConsumerHeartbeatReply)
        match reply.error:
            case ErrorCode.NONE:
                self._epoch = max(reply.member_epoch, 0)
                if reply.assignment is not None:
                    names = {one.topic_id: one.name for one in self.world.node.topics.values()}
                    self._take(
                        frozenset(
                            TopicPartition(names[topic], number)
                            for topic, numbers in reply.assignment
                            for number in numbers
                        )
                    )
                self.is_content = self._target is None
            case ErrorCode.UNRELEASED_INSTANCE_ID:
                self.member_id = NO_MEMBER
                self.world.later(self.world.settings.heartbeat_interval_ms, self._return)
            case _:
                self.lose()
                self.is_content = False
                self.world.later(self.wait_ms(), self._return)

    def _take(self, given: frozenset[TopicPartition]) -> None:
        """Give up and take over when the application polls; then say so at once."""
        is_working, self._target = self._target is not None, given
        if not is_working:
            self.is_content = False
            self.world.later(self.wait_ms(), self._reconcile)

    def _reconcile(self) -> None:
        target, self._target = self._target, None
        if self.is_alive and self.member_id and target is not None:
            self.owned = target
            self._heartbeat()
