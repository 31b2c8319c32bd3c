"""One member on virtual time, and a test that plays everybody else: brokers, network, application."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from kohort.assign.assignor import Assignor
from kohort.assign.protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.assign.registry import choose_assignors
from kohort.client.addresses import Address
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import DisconnectedError, RequestTimeoutError
from kohort.client.membership.classic.coordinator import ClassicMembership
from kohort.client.membership.commands import (
    CallbackDone,
    CallbackKind,
    Close,
    Closed,
    Command,
    Commit,
    CommitDone,
    CommitId,
    CommittedFetched,
    Effect,
    FetchCommitted,
    FetchId,
    MetadataUpdated,
    Noted,
    Poll,
    Polled,
    Raised,
    RefreshMetadata,
    ReplyReceived,
    RequestFailed,
    RunCallback,
    Send,
    SubscriptionReplaced,
    Unsubscribe,
    Unsubscribed,
    WakePoll,
)
from kohort.client.membership.consumer.coordinator import ConsumerMembership
from kohort.client.membership.context import ClassicContext
from kohort.client.membership.machine import Membership
from kohort.client.membership.state import ClusterTopics
from kohort.client.subscription import OffsetAndMetadata, Position, Subscriptions
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import GroupId, Instant, MemberId, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

R = TypeVar("R", bound=Message)
E = TypeVar("E")
Hook = Callable[[tuple[TopicPartition, ...]], None]
_MOST_TURNS = 100_000


class Wakeup(Exception):  # noqa: N818 - the word of the trade
    """What a shell raises from a callback that was interrupted."""


def tp(name: str) -> TopicPartition:
    """``t-0`` as a partition."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(TopicName(topic), Partition(int(number)))


def tps(names: str) -> tuple[TopicPartition, ...]:
    """``t-0 t-1`` as partitions."""
    return tuple(map(tp, names.split()))


def topics(*names: str) -> frozenset[TopicName]:
    return frozenset(map(TopicName, names))


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"."))


def assignment(names: str) -> bytes:
    """The blob that assigns ``t-0 t-1``."""
    return encode_assignment(Assignment(tps(names)))


def wish(topics: str, owned: str = "") -> bytes:
    """The blob of a member that wants ``t u`` and owns ``t-0``."""
    return encode_subscription(Subscription(tuple(map(TopicName, topics.split())), None, tps(owned)))


def member(member_id: str, metadata: bytes) -> JoinGroupResponseMember:
    """A member as the leader is told about it."""
    return JoinGroupResponseMember(member_id=member_id, metadata=metadata)


class Stage:
    """Turns effects into lists a test can look at; runs callbacks at once, with ``hooks`` if there are."""

    def __init__(
        self,
        topics: str = "t",
        *,
        assignors: Sequence[str | Assignor] = ("range",),
        pattern: str | None = None,
        dice: float = 0.5,
        **settings: Any,  # noqa: ANN401 - of ConsumerSettings, checked there
    ) -> None:
        self.now = 0
        self.subscriptions = Subscriptions()
        if pattern is not None:
            self.subscriptions.subscribe_pattern(re.compile(pattern))
        elif topics:
            self.subscriptions.subscribe(topics.split())
        settings.setdefault("enable_auto_commit", False)
        chosen = ConsumerSettings(group_id=GroupId("g"), **settings)
        self.membership: Membership = (
            ConsumerMembership(chosen, MemberId("m"), self.subscriptions, dice=lambda: dice, now=Instant(0))
            if chosen.uses_consumer_protocol
            else ClassicMembership(
                chosen, choose_assignors(assignors), self.subscriptions, dice=lambda: dice, now=Instant(0)
            )
        )
        self.unanswered: list[tuple[int, Send]] = []
        self.sent: list[Send] = []
        self.callbacks: list[str] = []
        self.hooks: dict[CallbackKind, Hook] = {}
        self.effects: list[Effect] = []
        self.waiting_callback: RunCallback | None = None  # with ``holds_callbacks``
        self.holds_callbacks = False
        self.was_calm = False  # the last poll
        self._version = 0
        self._ids = 0

    # --- the application ----------------------------------------------------------------------

    def poll(self) -> bool:
        """One turn; whether the group is active. Raises what poll raises.

        A turn that passes for calm must have had nothing to do: that is checked in every story.
        """
        self.was_calm = self.membership.poll_calmly(Instant(self.now))
        effects = self.handle(Poll())
        assert not self.was_calm or effects == [Polled(active=True)]
        done = [each for each in effects if isinstance(each, Polled | Raised)]
        assert len(done) == (0 if self.waiting_callback else 1)
        if done and isinstance(done[0], Raised):
            raise done[0].error
        return bool(done) and cast(Polled, done[0]).active

    def unsubscribe(self) -> BaseException | None:
        return self._only(Unsubscribed, self.handle(Unsubscribe())).error

    def close(self, timeout: int = 30_000) -> list[Effect]:
        """Begin to close; see ``closed``."""
        return self.handle(Close(Instant(self.now + timeout)))

    def closed(self) -> Closed | None:
        return next((each for each in self.effects if isinstance(each, Closed)), None)

    def subscribe(self, topics: str) -> None:
        self.subscriptions.subscribe(topics.split())
        self.handle(SubscriptionReplaced())

    def commit(self, offsets: Mapping[str, int] | None = None, *, timeout: int | None = None) -> int:
        """Commit asynchronously, or with a timeout synchronously; the id under which it will be ``done``."""
        self._ids += 1
        given = None
        if offsets is not None:
            given = {tp(name): OffsetAndMetadata(offset) for name, offset in offsets.items()}
        deadline = None if timeout is None else Instant(self.now + timeout)
        self.handle(Commit(CommitId(self._ids), given, deadline))
        return self._ids

    def fetch_committed(self, names: str, timeout: int = 60_000) -> int:
        self._ids += 1
        self.handle(FetchCommitted(FetchId(self._ids), tps(names), Instant(self.now + timeout)))
        return self._ids

    def done(self, commit_id: int) -> CommitDone | None:
        found = (each for each in self.effects if isinstance(each, CommitDone))
        return next((each for each in found if each.commit_id == commit_id), None)

    def fetched(self, fetch_id: int) -> CommittedFetched | None:
        found = (each for each in self.effects if isinstance(each, CommittedFetched))
        return next((each for each in found if each.fetch_id == fetch_id), None)

    def error_of(self, commit_id: int) -> KohortError | None:
        done = self.done(commit_id)
        assert done is not None, "the commit is not over"
        return done.error

    def read_to(self, **offsets: int) -> None:
        """Set positions, as fetching would: ``read_to(t0=5)`` is offset 5 of partition 0 of ``t``."""
        for name, offset in offsets.items():
            self.subscriptions.state(tp(f"{name[:-1]}-{name[-1]}")).seek(Position(offset))

    @property
    def owned(self) -> str:
        return " ".join(map(str, self.subscriptions.assignment))

    # --- the network --------------------------------------------------------------------------

    def handle(self, command: Command) -> list[Effect]:
        return self._take(self.membership.handle(command, Instant(self.now)))

    def requests(self, kind: type[R]) -> list[R]:
        """What has been sent of a kind, answered or not."""
        return [each.request for each in self.sent if isinstance(each.request, kind)]

    def waiting(self, kind: type[Message]) -> list[Send]:
        return [each for _, each in self.unanswered if isinstance(each.request, kind)]

    def answer(self, kind: type[Message], response: Message) -> None:
        """Answer the oldest request of a kind."""
        send = self.waiting(kind)[0]
        self.unanswered = [each for each in self.unanswered if each[1] is not send]
        self.handle(ReplyReceived(send.request_id, response))

    def disconnect(self, kind: type[Message]) -> None:
        send = self.waiting(kind)[0]
        self.unanswered = [each for each in self.unanswered if each[1] is not send]
        self.handle(RequestFailed(send.request_id, DisconnectedError("gone")))

    def find(self, code: int = 0, node: int = 1) -> None:
        """Answer FindCoordinator."""
        found = Coordinator(key="g", node_id=node, host="h", port=9092, error_code=code, error_message=None)
        self.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[found]))

    def answer_join(self, code: int = 0, **fields: Any) -> None:  # noqa: ANN401 - of JoinGroupResponse
        """Answer JoinGroup, by default as a follower in generation 1."""
        defaults = {
            "error_code": code,
            "generation_id": -1 if code else 1,
            "member_id": "" if code else "m",
            "leader": "" if code else "other",
            "protocol_type": None if code else "consumer",
            "protocol_name": None
            if code
            else next(iter(cast(ClassicContext, self.membership._context).assignors)),
        }
        self.answer(JoinGroupRequest, JoinGroupResponse(**(defaults | fields)))

    def answer_sync(self, names: str = "", code: int = 0, blob: bytes | None = None) -> None:
        """Answer SyncGroup with these partitions, or with any bytes."""
        given = b"" if code else assignment(names) if blob is None else blob
        self.answer(SyncGroupRequest, SyncGroupResponse(error_code=code, assignment=given))

    def beat(self, code: int = 0) -> None:
        self.answer(HeartbeatRequest, HeartbeatResponse(error_code=code))

    def answer_commit(self, *codes: int) -> None:
        """Answer OffsetCommit with a code for each partition; one code counts for all."""
        request = cast(OffsetCommitRequest, self.waiting(OffsetCommitRequest)[0].request)
        rows = [(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions]
        given = codes if len(codes) > 1 else (*(codes or (0,)),) * len(rows)
        topics = [
            OffsetCommitResponseTopic(
                name=name,
                partitions=[OffsetCommitResponsePartition(partition_index=number, error_code=code)],
            )
            for (name, number), code in zip(rows, given, strict=True)
        ]
        self.answer(OffsetCommitRequest, OffsetCommitResponse(topics=topics))

    def metadata(self, internal: str = "", *, asks_all: bool = False, **counts: int | list[set[str]]) -> None:
        """Metadata with these topics: partition counts, or the racks of each partition's replicas."""
        self._version += 1
        shapes = {
            TopicName(name): tuple(
                frozenset(each) for each in ([set()] * given if isinstance(given, int) else given)
            )
            for name, given in counts.items()
        }
        asked = None if asks_all else frozenset(shapes)
        hidden = frozenset(map(TopicName, internal.split()))
        ids = {topic_id(name): name for name in shapes}
        self.handle(MetadataUpdated(ClusterTopics(self._version, shapes, hidden, asked, ids)))

    # --- time ---------------------------------------------------------------------------------

    def sleep(self, millis: int, *, polling: bool = False) -> None:
        """Let time pass: deadlines and timeouts come when they come, and maybe a poll every 100 ms."""
        end = self.now + millis
        for _ in range(_MOST_TURNS):
            times = [at + send.timeout_ms for at, send in self.unanswered]
            if (deadline := self.membership.next_deadline()) is not None:
                times.append(max(deadline, self.now))
            if polling:
                times.append(self.now + 100)
            if min(times, default=end + 1) > end:
                self.now = end
                return
            self.now = min(times)
            self._time_out()
            self._take(self.membership.advance(Instant(self.now)))
            if polling:
                self.poll()
        raise AssertionError("time does not get on")

    def _time_out(self) -> None:
        late = [each for each in self.unanswered if each[0] + each[1].timeout_ms <= self.now]
        self.unanswered = [each for each in self.unanswered if each not in late]
        for _, send in late:
            error = RequestTimeoutError("it", Address("h", 1), send.timeout_ms / 1_000)
            self.handle(RequestFailed(send.request_id, error))

    # --- shorter ways -------------------------------------------------------------------------

    def found(self) -> "Stage":
        """The coordinator is known and JoinGroup is on its way."""
        self.poll()
        self.find()
        self.poll()
        return self

    def stable(self, names: str = "t-0 t-1", generation: int = 1) -> "Stage":
        """A stable member with these partitions."""
        if self.membership.coordinator is None:
            self.found()
        self.answer_join(generation_id=generation)
        self.answer_sync(names)
        self.poll()
        return self

    def rejoined(self, names: str, generation: int = 2) -> None:
        """Take part in the rebalance a heartbeat told of."""
        self.told_to_rejoin()
        self.poll()
        self.answer_join(generation_id=generation)
        self.answer_sync(names)
        self.poll()

    def told_to_rejoin(self) -> None:
        self.sleep(3_000)
        self.beat(27)

    def notes(self) -> list[str]:
        return [each.text for each in self.effects if isinstance(each, Noted)]

    def refreshes(self) -> list[frozenset[TopicName] | None]:
        return [each.topics for each in self.effects if isinstance(each, RefreshMetadata)]

    @property
    def was_woken(self) -> bool:
        return any(isinstance(each, WakePoll) for each in self.effects)

    # --- how it works -------------------------------------------------------------------------

    def _take(self, effects: list[Effect]) -> list[Effect]:
        taken = list(effects)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append(effect)
                self.unanswered.append((self.now, effect))
            elif isinstance(effect, RunCallback):
                taken += self._run(effect)
        known = self.membership._context.requests
        self.unanswered = [each for each in self.unanswered if each[1].request_id in known]
        return taken

    def _run(self, callback: RunCallback) -> list[Effect]:
        self.callbacks.append(f"{callback.kind.name.lower()}({' '.join(map(str, callback.partitions))})")
        if self.holds_callbacks:
            self.waiting_callback = callback
            return []
        return self.finish(callback)

    def finish(self, callback: RunCallback | None = None) -> list[Effect]:
        """Let a callback return, or raise what its hook raises."""
        callback = callback or self.waiting_callback
        assert callback is not None
        self.waiting_callback = None
        error: BaseException | None = None
        try:
            if callback.kind in self.hooks:
                self.hooks[callback.kind](callback.partitions)
        except Exception as raised:
            error = raised
        return self.handle(CallbackDone(callback.callback_id, error, isinstance(error, Wakeup)))

    def _only(self, kind: type[E], effects: list[Effect]) -> E:
        found = [each for each in effects if isinstance(each, kind)]
        assert len(found) == 1
        return found[0]
