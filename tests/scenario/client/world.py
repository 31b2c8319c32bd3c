"""Members of a group and the broker's own core on one virtual clock: machines talk to a ``Shard`` in memory.

The network is as bad as a test wants: every answer may be late, or lost. A connection answers in order, as
brokers do: a request waits behind the one before it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from tests.scenario.client.broker import Broker

from kohort.assign.assignor import RebalanceProtocol
from kohort.assign.registry import choose_assignors
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import DisconnectedError
from kohort.client.membership.classic.coordinator import ClassicMembership
from kohort.client.membership.commands import (
    CallbackDone,
    CallbackKind,
    Close,
    Closed,
    Command,
    ConnectionLost,
    DisconnectCoordinator,
    Effect,
    MetadataUpdated,
    Poll,
    Polled,
    Raised,
    RefreshMetadata,
    ReplyReceived,
    RequestFailed,
    RequestId,
    RunCallback,
    Send,
    SubscriptionReplaced,
    Unsubscribe,
    Unsubscribed,
    WakePoll,
)
from kohort.client.membership.state import ClassicMemberState, ClusterTopics
from kohort.client.subscription import Subscriptions
from kohort.codec.schema import Message
from kohort.groups.settings import GroupSettings
from kohort.model.ids import GroupId, Instant, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.sim.node import SimulatedNode
from kohort.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = GroupId("g")
Fate = Callable[[Message], int | None]
"""How many milliseconds an answer takes; None: it never comes, and the connection breaks."""
_MOST_STEPS = 200_000


@dataclass(frozen=True, slots=True)
class CallbackRun:
    """A callback a member ran: what, when, in which generation."""

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]
    at: int
    generation: int


class Connection:
    """What one member has asked of the coordinator, in order; one request at a time is being answered."""

    def __init__(self) -> None:
        self.queue: deque[Send] = deque()
        self.is_busy = False


class Consumer:
    """A machine and the smallest of shells around it: polls when woken, and at the latest every 100 ms."""

    def __init__(
        self, world: "World", name: str, settings: ConsumerSettings, assignors: Sequence[str]
    ) -> None:
        self.world = world
        self.name = name
        self.subscriptions = Subscriptions()
        self.membership = ClassicMembership(
            settings, choose_assignors(assignors), self.subscriptions, dice=lambda: 0.5, now=world.now
        )
        self.connection = Connection()
        self.told: list[CallbackRun] = []
        self.raised: list[BaseException] = []
        self.is_polling = True  # the application comes back in time
        self.is_alive = True
        self.is_in_call = False
        self.closed: Closed | None = None
        self.callback_ms = 0

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.subscriptions.assignment)

    @property
    def is_settled(self) -> bool:
        """Nothing is going on: the member is stable, and has taken over what it was given."""
        member = self.membership
        is_done = member._context.member.attempt is None and not self.is_in_call
        return member.state is ClassicMemberState.STABLE and not member.rejoin_needed and is_done

    def subscribe(self, *topics: str) -> None:
        self.subscriptions.subscribe(topics)
        self.handle(SubscriptionReplaced())

    def poll(self) -> None:
        if self.is_alive and self.is_polling and not self.is_in_call and self.subscriptions.is_group_managed:
            self.is_in_call = True
            is_calm = self.membership.poll_calmly(self.world.now)
            effects = self.membership.handle(Poll(), self.world.now)
            assert not is_calm or effects == [Polled(active=True)], "a calm poll had something to do"
            self._carry_out(effects)
            again = self.membership.poll_again_at()
            got_nowhere = effects == [Polled(active=False)]
            assert not got_nowhere or again is None or again > self.world.now, "a shell would poll in circles"

    def close(self) -> None:
        self.is_polling = False
        self.is_in_call = True
        self.handle(Close(Instant(self.world.now + 30_000)))

    def unsubscribe(self) -> None:
        self.is_in_call = True
        self.handle(Unsubscribe())

    def die(self) -> None:
        """No goodbye: the process is gone."""
        self.is_alive = False
        self.connection = Connection()

    def handle(self, command: Command) -> None:
        if self.is_alive:
            self._carry_out(self.membership.handle(command, self.world.now))

    def advance(self) -> None:
        if self.is_alive:
            self._carry_out(self.membership.advance(self.world.now))

    def lose_connection(self) -> None:
        self.connection = Connection()
        self.handle(ConnectionLost())

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.world.send(self, effect)
                case DisconnectCoordinator():
                    self.connection = Connection()
                case RunCallback():
                    self._call_back(effect)
                case Polled() | Raised() | Unsubscribed():
                    self.is_in_call = False
                    if isinstance(effect, Raised):
                        self.raised.append(effect.error)
                case Closed():
                    self.closed, self.is_in_call = effect, False
                case RefreshMetadata():
                    self.world.after(5, self.refresh)
                case WakePoll():
                    self.world.after(0, self.poll)
                case _:
                    pass

    def refresh(self) -> None:
        self.handle(MetadataUpdated(self.world.topics()))

    def _call_back(self, effect: RunCallback) -> None:
        generation = self.membership.generation.generation_id
        self.told.append(CallbackRun(effect.kind, effect.partitions, self.world.now, generation))
        self.world.on_told(self, self.told[-1])
        done = CallbackDone(effect.callback_id)
        self.world.after(self.callback_ms, lambda: self.handle(done))

    def tell(self) -> list[str]:
        """The callbacks so far, as text."""
        return [f"{each.kind.name.lower()}({' '.join(map(str, each.partitions))})" for each in self.told]


class World:
    """One broker, its group core, and any number of consumers."""

    def __init__(self, *, delay: int = 1, **partitions: int) -> None:
        self.node = SimulatedNode(GroupSettings(initial_rebalance_delay_ms=0))
        self.broker = Broker(self.node)
        self.consumers: list[Consumer] = []
        self.partitions = partitions or {"t": 4}
        self.version = 1
        self.fate: Fate = lambda _: delay
        self.cut_off: set[str] = set()  # consumers whose packets get lost
        self.on_told: Callable[[Consumer, CallbackRun], None] = lambda consumer, told: None
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def now(self) -> Instant:
        return self.node.clock.instant

    def consumer(
        self, name: str, *topics: str, assignors: Sequence[str] = ("range",), instance: str | None = None
    ) -> Consumer:
        """A consumer that subscribes and polls from now on."""
        settings = ConsumerSettings(
            group_id=GROUP,
            group_instance_id=instance,
            session_timeout_ms=10_000,
            max_poll_interval_ms=30_000,
            enable_auto_commit=False,
        )
        made = Consumer(self, name, settings, assignors)
        self.consumers.append(made)
        made.refresh()
        made.subscribe(*(topics or ("t",)))
        self._poll_forever(made)
        return made

    def topics(self) -> ClusterTopics:
        nowhere: frozenset[str] = frozenset()
        shapes = {TopicName(name): (nowhere,) * many for name, many in self.partitions.items()}
        return ClusterTopics(self.version, shapes, frozenset(), None)

    def grow(self, topic: str, many: int) -> None:
        """More partitions; every consumer sees them."""
        self.partitions[topic] = many
        self.version += 1
        for each in self.consumers:
            each.refresh()

    # --- the network --------------------------------------------------------------------------

    def send(self, consumer: Consumer, send: Send) -> None:
        if consumer.name in self.cut_off:
            self._fail(consumer, send.request_id, 20)
            return
        if isinstance(send.request, FindCoordinatorRequest):
            self._answer_lookup(consumer, send)
            return
        connection = consumer.connection
        connection.queue.append(send)
        self.after(send.timeout_ms, lambda: self._time_out(consumer, send))
        self._serve_next(consumer, connection)

    def _answer_lookup(self, consumer: Consumer, send: Send) -> None:
        delay = self.fate(send.request)
        if delay is None:
            self._fail(consumer, send.request_id, 20)
            return
        found = Coordinator(key=GROUP, node_id=1, host="h", port=9092, error_message=None)
        reply = ReplyReceived(send.request_id, FindCoordinatorResponse(coordinators=[found]))
        self.after(delay, lambda: consumer.handle(reply))

    def _serve_next(self, consumer: Consumer, connection: Connection) -> None:
        if connection.is_busy or not connection.queue:
            return
        connection.is_busy = True
        send = connection.queue[0]

        def answered(response: Message) -> None:
            delay = self.fate(send.request)
            if delay is None:
                self.after(20, lambda: self._break(consumer, connection))
            else:
                self.after(delay, lambda: self._deliver(consumer, connection, send.request_id, response))

        self.broker.serve(consumer.name, send.request, answered)

    def _deliver(
        self, consumer: Consumer, connection: Connection, request_id: RequestId, response: Message
    ) -> None:
        if consumer.connection is not connection:
            return  # closed since
        connection.queue.popleft()
        connection.is_busy = False
        consumer.handle(ReplyReceived(request_id, response))
        self._serve_next(consumer, connection)

    def _break(self, consumer: Consumer, connection: Connection) -> None:
        if consumer.connection is connection:
            consumer.lose_connection()

    def _time_out(self, consumer: Consumer, send: Send) -> None:
        if send in consumer.connection.queue:
            self._fail(consumer, send.request_id, 0)

    def _fail(self, consumer: Consumer, request_id: RequestId, delay: int) -> None:
        failed = RequestFailed(request_id, DisconnectedError("gone"))
        self.after(delay, lambda: consumer.handle(failed))

    # --- time ---------------------------------------------------------------------------------

    def after(self, millis: int, act: Callable[[], None]) -> None:
        heappush(self._agenda, (self.now + millis, next(self._order), act))

    def sleep(self, millis: int) -> None:
        """Let time pass; everything happens in its order."""
        self._run_until(self.now + millis, lambda: False)

    def settle(self, within: int = 300_000) -> None:
        """Wait until every consumer that lives is settled."""
        done = self._run_until(self.now + within, lambda: self.is_settled)
        assert done, f"not settled: {[each.membership for each in self.alive]} {self.node.shard.group(GROUP)}"

    @property
    def alive(self) -> list[Consumer]:
        return [each for each in self.consumers if each.is_alive and each.closed is None]

    @property
    def is_settled(self) -> bool:
        return all(each.is_settled for each in self.alive if each.subscriptions.is_group_managed)

    def _run_until(self, end: int, holds: Callable[[], bool]) -> bool:
        for _ in range(_MOST_STEPS):
            if holds():
                return True
            next_time = self._next_time()
            if next_time is None or next_time > end:
                self.node.sleep(end - self.now)
                return holds()
            self.node.sleep(max(0, next_time - self.now))
            self._act()
        raise AssertionError("time does not get on")

    def _next_time(self) -> int | None:
        times = [self._agenda[0][0]] if self._agenda else []
        times += [at for each in self.alive if (at := each.membership.next_deadline()) is not None]
        if (deadline := self.node.shard.next_deadline()) is not None:
            times.append(deadline)
        return min(times, default=None)

    def _act(self) -> None:
        self.broker.deliver()
        while self._agenda and self._agenda[0][0] <= self.now:
            heappop(self._agenda)[2]()
            self.broker.deliver()
        for each in self.alive:
            deadline = each.membership.next_deadline()
            if deadline is not None and deadline <= self.now:
                each.advance()

    def _poll_forever(self, consumer: Consumer) -> None:
        def turn() -> None:
            consumer.poll()
            if consumer.is_alive and consumer.closed is None:
                self.after(100, turn)

        self.after(0, turn)

    # --- what must hold -----------------------------------------------------------------------

    def owners(self) -> dict[TopicPartition, list[str]]:
        """Who has each partition, by the consumers' own account."""
        owners: dict[TopicPartition, list[str]] = {}
        for each in self.alive:
            for partition in each.owned:
                owners.setdefault(partition, []).append(each.name)
        return owners

    def everything(self) -> set[TopicPartition]:
        return {
            TopicPartition(TopicName(topic), Partition(number))
            for topic, many in self.partitions.items()
            for number in range(many)
        }

    def is_cooperative(self, consumer: Consumer) -> bool:
        return consumer.membership.protocol is RebalanceProtocol.COOPERATIVE
