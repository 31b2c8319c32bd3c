"""What all parts of the machine share: the time, the member, the requests in flight, the effects so far."""

from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias, TypeVar

from kohort.assign.assignor import Assignor
from kohort.assign.registry import rebalance_protocol
from kohort.client.membership.commands import CallbackDone, CallbackId, RequestId
from kohort.client.membership.effects import (
    Destination,
    Effect,
    Noted,
    RefreshMetadata,
    RunCallback,
    Send,
    WakePoll,
)
from kohort.client.membership.member import Member
from kohort.client.membership.settings import MemberSettings
from kohort.client.membership.snapshot import ClusterTopics
from kohort.client.settings import Dice, backoff_ms
from kohort.client.subscription import Subscriptions
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName

T = TypeVar("T")


class Until(NamedTuple):
    """A pause of the application's call: until something holds, or until ``deadline``."""

    holds: Callable[[], bool]
    deadline: Instant


Step: TypeAlias = Generator[RunCallback | Until, CallbackDone | None, T]
"""A call of the application, as far as it can go. It pauses for callbacks, and for nothing but callbacks
inside poll; what it is resumed with is how the callback ended."""


class Terms(NamedTuple):
    """Which versions of a request will do, and how long it may take (None: request.timeout.ms)."""

    lowest: int = 0
    highest: int | None = None
    timeout_ms: int | None = None


ANY_TERMS = Terms()


class Pending(NamedTuple):
    """A request that waits for its answer."""

    destination: Destination
    replied: Callable[[Message], None]
    failed: Callable[[KohortError], None]


class Context:
    """One for each ``Membership``; ``now`` is set by the door before anything happens."""

    def __init__(
        self,
        settings: MemberSettings,
        assignors: Sequence[Assignor],
        subscriptions: Subscriptions,
        dice: Dice,
        now: Instant,
    ) -> None:
        self.settings = settings
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = rebalance_protocol(assignors)
        self.subscriptions = subscriptions
        self.now = now
        self.member = Member(now)
        self.cluster = ClusterTopics()
        self.effects: list[Effect] = []
        self.requests: dict[RequestId, Pending] = {}
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

    def send(self, request: Message, pending: Pending, terms: Terms = ANY_TERMS) -> None:
        request_id = RequestId(next(self._ids))
        self.requests[request_id] = pending
        timeout = self.settings.request_timeout_ms if terms.timeout_ms is None else terms.timeout_ms
        self.emit(Send(request_id, pending.destination, request, timeout, terms.lowest, terms.highest))

    def take_requests(self, destination: Destination) -> list[Pending]:
        """Everything in flight to there, which from now on waits for nothing."""
        taken = [each for each, pending in self.requests.items() if pending.destination is destination]
        return [self.requests.pop(each) for each in taken]

    def next_callback_id(self) -> CallbackId:
        return CallbackId(next(self._ids))

    def after(self, millis: int) -> Instant:
        return Instant(self.now + millis)

    def after_backoff(self, failures: int) -> Instant:
        """When to try again after failure number ``failures``, counted from 0."""
        return self.after(backoff_ms(failures, self.settings, self._dice))

    @property
    def wanted_topics(self) -> frozenset[TopicName]:
        """What metadata has to cover: the own subscription, and as the leader that of the group."""
        return self.subscriptions.subscription.topics | self.member.group_subscription

    def refresh_metadata(self) -> None:
        pattern = self.subscriptions.subscription.pattern
        self.emit(RefreshMetadata(None if pattern is not None else self.wanted_topics))
