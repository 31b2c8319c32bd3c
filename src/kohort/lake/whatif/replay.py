"""Happenings and settings in, what the group did out: our coordinator and simulated clients on virtual time.

No clock is read; the dice of a run are seeded by its number, so a run gives the same on any machine.
Time in which all members are content is skipped: a run costs what happens in it, not how long it is.
"""

import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, assert_never

from kohort.assign.assignor import ClusterView
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Request
from kohort.groups.consumer.events import ConsumerGroupStored, ConsumerMemberDropped
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.events import Event, GenerationStarted, MemberRemoved
from kohort.groups.replies import ReplyBody
from kohort.groups.sessions import arm_session
from kohort.groups.settings import GroupSettings
from kohort.lake.whatif.clients import ClassicClient, ConsumerClient, MemberProcess
from kohort.lake.whatif.happenings import (
    ClientSettings,
    Crash,
    Grow,
    Happening,
    Recording,
    Seat,
    Silence,
    SlowPoll,
    Start,
    Stop,
    Subscribe,
    certain,
)
from kohort.model.ids import GroupId, Instant, ReplyTo, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.record import Record
from kohort.sim.clock import EPOCH
from kohort.sim.node import SimulatedNode

CONSUMER = "consumer"
_WARM_UP_MS = 600_000  # in which the members that were there at the start form the group
_COOL_DOWN_MS = 600_000  # for what happened last to be noticed, under any settings
_SLOWEST_REACTION_MS = 500  # where no reaction was recorded
_MOST_EVENTS = 5_000_000


class Result(NamedTuple):
    """What a run came to."""

    rebalances: int
    unowned_ms: int  # partition-milliseconds in which no live process had the partition
    dead_ms: int  # the part of it in which the coordinator still held a dead process for the owner
    longest_ms: int  # the longest time any partition was without a live owner
    moved: int  # partitions that changed hands
    started: tuple[int, ...] = ()  # when rebalances began


class Traced(NamedTuple):
    """A run with all the coordinator stored and journaled."""

    result: Result
    records: Sequence[Record]
    events: Sequence[tuple[int, Event]]


def simulate_one(recording: Recording, settings: ClientSettings, seed: int) -> Result:
    """Let the recorded happenings come about under these settings. Needs no Spark."""
    return _run(recording, settings, seed).result()


def trace(recording: Recording, settings: ClientSettings, seed: int) -> Traced:
    """The same, with what a lake would be filled with."""
    run = _run(recording, settings, seed)
    return Traced(run.result(), tuple(run.node.log), tuple(run.events))


def _run(recording: Recording, settings: ClientSettings, seed: int) -> "Simulation":
    run = Simulation(recording, settings, seed)
    run.live(certain(recording, random.Random(f"doubts {seed}")))
    return run


class Simulation:
    """A coordinator, its clients, and what is still to come."""

    def __init__(self, recording: Recording, settings: ClientSettings, seed: int) -> None:
        self.settings = settings
        self.group_id = GroupId(recording.group)
        self.node = SimulatedNode(
            GroupSettings(
                min_session_timeout_ms=1,
                max_session_timeout_ms=2**31 - 1,
                initial_rebalance_delay_ms=settings.initial_delay_ms,
                consumer_session_timeout_ms=settings.session_timeout_ms,
                consumer_heartbeat_interval_ms=settings.heartbeat_interval_ms,
            )
        )
        self.events: list[tuple[int, Event]] = []
        self.topics: dict[str, int] = {}
        self._recording = recording
        self._seed = seed
        self._queue: list[tuple[int, int, bool, Callable[[], None]]] = []
        self._pushed = 0
        self._busy = 0  # queued things that are not heartbeats
        self._requests = 0
        self._asked: dict[ReplyTo, Callable[[ReplyBody], None]] = {}
        self._clients: dict[str, MemberProcess] = {}
        self._ghosts: list[MemberProcess] = []  # gone without a word, and not noticed yet
        self._book = _Book()
        self._patient_until = 0
        beat = recording.settings.heartbeat_interval_ms
        prompt = [min(each, beat) for each in recording.reactions_ms] or [0]
        self._usual_reaction_ms = max(0, 2 * sum(prompt) // len(prompt) - beat)
        for topic, partitions in recording.topics.items():
            self.grow(topic, partitions)

    # --- what clients use -----------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Milliseconds since the simulation began."""
        return self.node.clock.instant

    def later(self, delay: int, act: Callable[[], None], *, is_beat: bool = False) -> None:
        """Do something after a number of milliseconds."""
        self._pushed += 1
        self._busy += not is_beat
        heappush(self._queue, (self.now + max(delay, 0), self._pushed, is_beat, act))

    def ask(self, make: Callable[[ReplyTo], Request], answer: Callable[[ReplyBody], None]) -> None:
        """Send a request; ``answer`` gets the reply."""
        self._requests += 1
        name = ReplyTo(self._requests)
        self._asked[name] = answer
        self.node.handle(make(name))
        self._deliver()

    def cluster(self) -> ClusterView:
        return ClusterView({TopicName(topic): count for topic, count in self.topics.items()})

    def reaction_ms(self, dice: random.Random) -> int:
        """How long a member takes to join again after it has heard of a rebalance."""
        recorded, slowest = self._recording.reactions_ms, _SLOWEST_REACTION_MS
        if not recorded:
            return dice.randrange(slowest)
        # What was recorded has the wait for the next heartbeat in it, half an interval on average.
        beat = self._recording.settings.heartbeat_interval_ms
        return max(0, dice.choice(recorded) - beat) + dice.randrange(self._usual_reaction_ms + 1)

    # --- how time passes ------------------------------------------------------------------------

    def live(self, happenings: Sequence[Happening]) -> None:
        """Everything that happens, and then time for the last of it to settle."""
        for seat in self._recording.running:
            self._happen(Start(0, seat))
        self._pass_until(_WARM_UP_MS)
        self._book = _Book()
        self._count()
        for one in happenings:
            self._pass_until(_WARM_UP_MS + one.at)
            self._happen(one)
        self._pass_until(_WARM_UP_MS + self._recording.length_ms + _COOL_DOWN_MS)
        self._count()

    def _pass_until(self, moment: int) -> None:
        for _ in range(_MOST_EVENTS):
            left = moment - self.now
            due = self._queue[0][0] - self.now if self._queue else left
            timer = self.node.shard.next_deadline()
            step = max(0, min(left, due, left if timer is None else timer - self.now))
            if left - step > 4 * self.settings.heartbeat_interval_ms and self._is_quiet():
                self._skip(left - 2 * self.settings.heartbeat_interval_ms)
                continue
            self._count()
            self.node.sleep(step)
            self._deliver()
            if step == left and due > left:
                return
            while self._queue and self._queue[0][0] <= self.now:
                _, _, is_beat, act = heappop(self._queue)
                self._busy -= not is_beat
                act()
                self._deliver()
            if step == left:
                return
        raise AssertionError("a simulation that does not end")

    def _is_quiet(self) -> bool:
        """Whether heartbeats are all that is going on."""
        if self._busy or self._ghosts or self._asked:
            return False
        if self._book.since and self.now < self._patient_until:
            return False  # a coordinator learns of new partitions with a heartbeat
        found = self.node.shard.state.groups.get(self.group_id)
        here = [client for client in self._clients.values() if client.is_alive]
        if found is None or not here:
            return not here and (found is None or not found.members)
        if len(found.members) != len(here) or not all(client.is_content for client in here):
            return False
        match found:
            case Group():
                return found.phase is Phase.STABLE
            case ConsumerGroup():
                return found.state_name == "Stable"
            case _:
                assert_never(found)

    def _skip(self, millis: int) -> None:
        """Time passes in which members sent heartbeats, and nothing else happened."""
        self._count()
        self.node.clock.move_to(Instant(self.now + millis))
        self._queue = [(at + millis, *others) for at, *others in self._queue]  # type: ignore[misc]  # the order stays
        state = self.node.shard.state
        found = state.groups.get(self.group_id)
        for member_id in () if found is None else found.members:
            arm_session(state, self.group_id, member_id, self.settings.session_timeout_ms, Instant(self.now))

    def _deliver(self) -> None:
        node = self.node
        while node.sent or node.events:
            sent, node.sent = node.sent, []
            events, node.events = node.events, []
            for event in events:
                self._hear(event)
            for reply in sent:
                node.replies.pop(reply.reply_to, None)
                answer = self._asked.pop(reply.reply_to, None)
                if answer is not None:
                    answer(reply.body)

    def _hear(self, event: Event) -> None:
        at = self.now - _WARM_UP_MS
        self.events.append((EPOCH + self.now, event))
        if isinstance(event, GenerationStarted | ConsumerGroupStored):
            self._book.rebalances += 1
            self._book.started.append(at)
        if isinstance(event, MemberRemoved | ConsumerMemberDropped):
            self._ghosts = [one for one in self._ghosts if one.member_id != event.member_id]

    # --- what happens ---------------------------------------------------------------------------

    def _happen(self, one: Happening) -> None:  # noqa: C901  # one case for each happening
        self._count()
        self._patient_until = self.now + _WARM_UP_MS
        match one:
            case Start():
                self._start(one.seat)
            case Stop():
                self._end(one.seat, politely=True)
            case Crash():
                self._end(one.seat, politely=False)
            case Silence():
                if client := self._alive(one.seat):
                    client.fall_silent(one.until - one.at)
            case SlowPoll():
                if client := self._alive(one.seat):
                    client.poll_slowly(one.until - one.at)
            case Subscribe():
                if client := self._alive(one.seat):
                    client.subscribe(one.topics)
            case Grow():
                self.grow(one.topic, one.partitions)
                for client in self._clients.values():
                    client.see_topic(one.topic)
            case _:
                assert_never(one)
        self._deliver()
        self._count()

    def _alive(self, seat: str) -> MemberProcess | None:
        found = self._clients.get(seat)
        return found if found is not None and found.is_alive else None

    def _start(self, name: str) -> None:
        if self._alive(name) is not None:
            return
        seat = self._recording.seats[name]
        dice = random.Random(f"{self._seed} {name} {len(self.events)}")
        kind = ConsumerClient if self.settings.protocol == CONSUMER else ClassicClient
        self._clients[name] = client = kind(self, seat._replace(instance_id=self._instance(seat)), dice)
        self._ghosts = [one for one in self._ghosts if one.seat.instance_id is None or one.seat.name != name]
        client.start()

    def _instance(self, seat: Seat) -> str | None:
        if not self.settings.static:
            return None
        return seat.instance_id or seat.name

    def _end(self, name: str, *, politely: bool) -> None:
        client = self._alive(name)
        if client is None:
            return
        client.is_alive = False
        # A static member does not leave when it closes: its session runs on.
        if politely and (client.seat.instance_id is None or isinstance(client, ConsumerClient)):
            client.leave()
        else:
            self._ghosts.append(client)

    def grow(self, topic: str, partitions: int) -> None:
        self.topics[topic] = partitions
        self.node.put_topic(topic, partitions)

    # --- who has what ---------------------------------------------------------------------------

    def _count(self) -> None:
        here = [client for client in self._clients.values() if client.is_alive]
        wanted = {topic for client in here for topic in client.topics}
        owned = {partition: client.seat.name for client in here for partition in client.owned}
        dead = {partition for ghost in self._ghosts for partition in ghost.owned}
        everything = [
            TopicPartition(TopicName(topic), number)  # type: ignore[arg-type]  # a plain number
            for topic in wanted
            for number in range(self.topics.get(topic, 0))
        ]
        self._book.write(self.now, everything, owned, dead)

    def result(self) -> Result:
        book = self._book
        return Result(
            book.rebalances,
            book.unowned_ms,
            book.dead_ms,
            max([book.longest_ms, *(self.now - since for since in book.since.values())]),
            book.moved,
            tuple(book.started),
        )


class _Book:
    """Partition-milliseconds without a live owner, kept as things change."""

    def __init__(self) -> None:
        self.rebalances = self.unowned_ms = self.dead_ms = self.longest_ms = self.moved = 0
        self.started: list[int] = []
        self.since: dict[TopicPartition, int] = {}  # without an owner since then
        self._last: tuple[int, int, int] | None = None  # when, how many without an owner, with a dead one
        self._owner: dict[TopicPartition, str] = {}

    def write(
        self,
        moment: int,
        everything: Sequence[TopicPartition],
        owned: dict[TopicPartition, str],
        dead: set[TopicPartition],
    ) -> None:
        if self._last is not None:
            before, unowned, of_dead = self._last
            self.unowned_ms += unowned * (moment - before)
            self.dead_ms += of_dead * (moment - before)
        without = [partition for partition in everything if partition not in owned]
        for partition in [one for one in self.since if one in owned]:
            self.longest_ms = max(self.longest_ms, moment - self.since.pop(partition))
        for partition in without:
            self.since.setdefault(partition, moment)
        for partition, owner in owned.items():
            if self._owner.get(partition, owner) != owner:
                self.moved += 1
            self._owner[partition] = owner
        self._last = moment, len(without), sum(partition in dead for partition in without)
