"""What all parts of the machine share: the time, the member, the requests in flight, the effects so far."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import NamedTuple, Protocol

from kohort.assign.assignor import Assignor
from kohort.assign.registry import rebalance_protocol
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.membership.commands import (
    CallbackId,
    CallbackKind,
    CommitId,
    Destination,
    Effect,
    FetchCommitted,
    Noted,
    RefreshMetadata,
    RequestId,
    RunCallback,
    Send,
    WakePoll,
)
from kohort.client.membership.state import (
    AbstractMember,
    ClassicProtocolMember,
    ClusterTopics,
    ConsumerProtocolMember,
    JoinAttempt,
    MemberGeneration,
    SentFields,
)
from kohort.client.settings import Dice, backoff_ms
from kohort.client.subscription import OffsetAndMetadata, Subscriptions
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, MemberId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey


class CommitPurpose(Enum):
    """Why something is committed; decides who hears how it ended."""

    SYNC = "the application waits for it"
    ASYNC = "the application is called back"
    INTERVAL = "auto.commit.interval.ms is over"
    REBALANCE = "partitions go"
    CLOSE = "the consumer is closed"


class CallStage(Enum):
    """How far a call to the coordinator is."""

    WAITING = "for the coordinator to be found"
    IN_FLIGHT = "sent"
    BACKING_OFF = "failed, to be sent again"
    DONE = "over"


class PendingCall:
    """A call to the coordinator. With a deadline it is retried until then, otherwise it has one attempt."""

    __slots__ = ("deadline", "error", "failures", "retry_at", "stage")

    def __init__(self, deadline: Instant | None) -> None:
        self.deadline = deadline
        self.stage = CallStage.WAITING
        self.error: KohortError | None = None  # of the last attempt; of the call when it is done
        self.failures = 0
        self.retry_at = Instant(0)

    @property
    def is_done(self) -> bool:
        return self.stage is CallStage.DONE

    @property
    def may_be_repeated(self) -> bool:
        return self.error is not None and self.error.retriable


class PendingCommit(PendingCall):
    """One commit."""

    __slots__ = ("after", "commit_id", "offsets", "purpose")

    def __init__(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: Instant | None,
        purpose: CommitPurpose,
        commit_id: CommitId | None = None,
    ) -> None:
        super().__init__(deadline)
        self.offsets = offsets
        self.purpose = purpose
        self.commit_id = commit_id  # of the application
        self.after: tuple[PendingCommit, ...] = ()  # sent nothing, and is over when these are


class CommittedQuestion(PendingCall):
    """A question for committed offsets."""

    __slots__ = ("command", "offsets")

    def __init__(self, command: FetchCommitted) -> None:
        super().__init__(command.deadline)
        self.command = command
        self.offsets: Mapping[TopicPartition, OffsetAndMetadata | None] = {}  # the answer


class CallbackStep(Enum):
    """Why a rebalance callback runs; decides what follows when it has ended."""

    PREPARE = "before the member joins again"
    REVOKE = "an assignment takes partitions away"
    ASSIGN = "an assignment is there"
    RELEASE = "unsubscribe or close"


class OpenCallback(NamedTuple):
    """The callback that a call of the application waits for."""

    callback_id: CallbackId
    step: CallbackStep
    partitions: frozenset[TopicPartition]


class Pending(NamedTuple):
    """A request that waits for its answer: which one, in which generation it was sent, what it is about."""

    api: ApiKey
    generation: MemberGeneration
    about: JoinAttempt | PendingCommit | CommittedQuestion | SentFields | None = None

    @property
    def destination(self) -> Destination:
        is_lookup = self.api is ApiKey.FIND_COORDINATOR
        return Destination.LEAST_LOADED if is_lookup else Destination.COORDINATOR


class Dispatcher(Protocol):
    """How one part of the machine tells the others what happened; the coordinator passes it on."""

    def unanswered(self, pending: Pending, error: KohortError) -> None: ...

    def coordinator_found(self) -> None: ...

    def lookup_failed(self, error: KohortError) -> None: ...

    def commit_done(self, commit: PendingCommit) -> None: ...

    def beat_now(self) -> None: ...


class MemberContext:
    """One for each ``Membership``; ``now`` is set by the door before anything happens."""

    def __init__(
        self,
        settings: ConsumerSettings,
        member: AbstractMember,
        subscriptions: Subscriptions,
        dice: Dice,
        now: Instant,
    ) -> None:
        self.settings = settings
        self.member = member
        self.subscriptions = subscriptions
        self.now = now
        self.cluster = ClusterTopics()
        self.has_unknown_ids = False  # of topics that a broker's regular expression found
        self.effects: list[Effect] = []
        self.dispatcher: Dispatcher  # set by the coordinator, which is made of them
        self.requests: dict[RequestId, Pending] = {}
        self.callback: OpenCallback | None = None
        self._dice = dice
        self._ids = count(1)

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def note(self, text: str, *, is_warning: bool = False) -> None:
        self.emit(Noted(f"[group {self.settings.group}] {text}", is_warning))

    def wake_poll(self) -> None:
        """Something happened that poll acts on."""
        if not any(isinstance(effect, WakePoll) for effect in self.effects):
            self.emit(WakePoll())

    def send(
        self,
        request: Message,
        about: JoinAttempt | PendingCommit | CommittedQuestion | SentFields | None = None,
        *,
        lowest: int = 0,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send it in a version from ``lowest`` to ``highest``; ``about`` comes back with the answer."""
        assert request.api_key is not None
        request_id = RequestId(next(self._ids))
        pending = Pending(ApiKey(request.api_key), self.member.generation, about)
        self.requests[request_id] = pending
        timeout = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        self.emit(Send(request_id, pending.destination, request, timeout, lowest, highest))

    def lose_requests(self, destination: Destination, error: KohortError) -> None:
        """Everything in flight to there is over: no answer will come."""
        taken = [each for each, pending in self.requests.items() if pending.destination is destination]
        for pending in [self.requests.pop(each) for each in taken]:
            self.dispatcher.unanswered(pending, error)

    def call_back(self, kind: CallbackKind, partitions: Iterable[TopicPartition], step: CallbackStep) -> None:
        """Run a callback; the call of the application goes on when it has ended."""
        assert self.callback is None, "one callback at a time"
        chosen = tuple(sorted(partitions))
        self.callback = OpenCallback(CallbackId(next(self._ids)), step, frozenset(chosen))
        self.emit(RunCallback(self.callback.callback_id, kind, chosen))

    def after(self, millis: int) -> Instant:
        return Instant(self.now + millis)

    def after_backoff(self, failures: int) -> Instant:
        """When to try again after failure number ``failures``, counted from 0."""
        return self.after(backoff_ms(failures, self.settings, self._dice))

    @property
    def needs_all_topics(self) -> bool:
        """For a pattern of this client, and to find the name behind the id of a topic."""
        return self.subscriptions.subscription.pattern is not None or self.has_unknown_ids

    @property
    def wanted_topics(self) -> frozenset[TopicName]:
        """What metadata has to cover: the own subscription, and as the leader that of the group."""
        return self.subscriptions.subscription.topics | self.member.group_subscription

    def refresh_metadata(self) -> None:
        self.emit(RefreshMetadata(None if self.needs_all_topics else self.wanted_topics))


class ClassicContext(MemberContext):
    """Of a classic member. EAGER or COOPERATIVE by the own assignors, not by the one the group selected."""

    member: ClassicProtocolMember

    def __init__(
        self,
        settings: ConsumerSettings,
        assignors: Sequence[Assignor],
        subscriptions: Subscriptions,
        dice: Dice,
        now: Instant,
    ) -> None:
        super().__init__(settings, ClassicProtocolMember(now), subscriptions, dice, now)
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = rebalance_protocol(assignors)


class ConsumerContext(MemberContext):
    """Of a member of the consumer protocol."""

    member: ConsumerProtocolMember

    def __init__(
        self,
        settings: ConsumerSettings,
        member_id: MemberId,
        subscriptions: Subscriptions,
        dice: Dice,
        now: Instant,
    ) -> None:
        super().__init__(settings, ConsumerProtocolMember(member_id), subscriptions, dice, now)
        self.heartbeat_interval_ms = 0  # the coordinator says it
