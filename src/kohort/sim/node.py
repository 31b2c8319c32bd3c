"""A shell for one shard, without sockets and disks: a clock, a log in memory, and who was answered what."""

from collections import deque
from typing import Any

from kohort.coordination.outcome import PositionedAppend
from kohort.coordination.positions import Reply
from kohort.groups.commands import (
    Command,
    ComputeTarget,
    Request,
    TopicDeleted,
    TopicImage,
    TopicsChanged,
)
from kohort.groups.consumer.assigning import answer
from kohort.groups.events import Event
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import Instant, ReplyTo, TopicId, TopicName
from kohort.records.record import Record
from kohort.sim.clock import SimulatedClock

_MOST_TIMERS = 1_000_000  # a simulation that fires more than this in one sleep does not end by itself


class SimulatedNode:
    """Drives a shard as a broker would: appends, confirms, sends replies, fires timers."""

    def __init__(self, settings: GroupSettings, clock: SimulatedClock | None = None) -> None:
        self.clock = clock or SimulatedClock()
        self.settings = settings
        self.log: list[Record] = []  # what survives a restart
        self.replies: dict[ReplyTo, Any] = {}  # bodies by request, as they were sent
        self.sent: list[Reply[ReplyBody]] = []
        self.failures = 0  # how often the shard was loaded again because an append failed
        self._waiting: dict[ReplyTo, Request] = {}
        self.events: list[Event] = []
        self.effects: list[object] = []  # what the shard has asked for
        self.topics: dict[TopicName, TopicImage] = {}
        self._topic_changes = 0
        self.unsettled: deque[PositionedAppend] = deque()  # handed to the log, not yet written
        self._holding = False
        self._failures: deque[ErrorCode] = deque()
        self.shard = self._load()

    def put_topic(self, name: str, partitions: int) -> TopicId:
        """Create a topic, or give it as many partitions."""
        self._topic_changes += 1
        topic = TopicName(name)
        known = self.topics.get(topic)
        topic_id = known.topic_id if known else TopicId(self._topic_changes.to_bytes(16, "big"))
        self.topics[topic] = TopicImage(topic_id, topic, partitions)
        self.handle(TopicsChanged((self.topics[topic],), self._topic_changes))
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and what was committed for it."""
        del self.topics[TopicName(name)]
        self.handle(TopicDeleted(TopicName(name)))

    def handle(self, command: Command) -> Outcome:
        """Give the shard a command, and do what the outcome asks for."""
        if isinstance(command, Request):
            self._waiting[command.reply_to] = command
        outcome = self.shard.handle(command, self.clock.now)
        self._take(outcome)
        self._fire_timers()
        return outcome

    def compute_targets(self) -> None:
        """Run the assignors that the shard has asked for, and those that the answers ask for."""
        while asked := [effect for effect in self.effects if isinstance(effect, ComputeTarget)]:
            self.effects = [effect for effect in self.effects if not isinstance(effect, ComputeTarget)]
            for each in asked:
                self.handle(answer(each))

    def sleep(self, millis: int) -> None:
        """Let time pass; every timer fires at its time."""
        end = Instant(self.clock.instant + millis)
        for _ in range(_MOST_TIMERS):
            deadline = self.shard.next_deadline()
            if deadline is None or deadline > end:
                self.clock.move_to(end)
                return
            self.clock.move_to(max(deadline, self.clock.instant))
            self._take(self.shard.advance(self.clock.now))
        raise AssertionError("timers fire without end")

    def hold_appends(self) -> None:
        """Let the log be slow: nothing is written until ``release_appends``."""
        self._holding = True

    def release_appends(self, count: int | None = None) -> None:
        """Let the log catch up: with everything and from now on, or with ``count`` batches only."""
        if count is None:
            self._holding = False
            self._write_all()
        for _ in range(count or 0):
            self._write(self.unsettled.popleft())
        self._fire_timers()

    def fail_next_append(self, error: ErrorCode) -> None:
        """Have the log refuse the next batch it is to write: the shard is then loaded from the log again."""
        self._failures.append(error)

    def stop_failing(self) -> None:
        """Have the log take everything again."""
        self._failures.clear()

    def restart(self, settings: GroupSettings | None = None) -> None:
        """Die and come back: what the log has is loaded, everything else is forgotten."""
        self.settings = settings or self.settings
        self._waiting.clear()
        self._reload()
        self._fire_timers()

    def unload(self) -> None:
        """Hand the partition over: all who wait are answered."""
        self._unload(None)

    def _reload(self) -> None:
        self.unsettled.clear()
        self.shard = self._load()

    def _load(self) -> Shard:
        shard = Shard(
            self.settings,
            self.clock.instant,
            TopicsChanged(tuple(self.topics.values()), self._topic_changes),
        )
        shard.replay(self.log)
        self._take(shard.finish_load(self.clock.now))
        return shard

    def _take(self, outcome: Outcome) -> None:
        self.events += outcome.events
        self.effects += outcome.effects
        self._send(outcome.replies)
        if outcome.append is not None:
            self.unsettled.append(outcome.append)
        self._write_all()

    def _send(self, replies: list[Reply[ReplyBody]]) -> None:
        for reply in replies:
            assert reply.reply_to not in self.replies, f"request {reply.reply_to} is answered twice"
            self.replies[reply.reply_to] = reply.body
            self._waiting.pop(reply.reply_to, None)
        self.sent += replies

    def _write_all(self) -> None:
        while self.unsettled and not self._holding:
            self._write(self.unsettled.popleft())

    def _write(self, append: PositionedAppend) -> None:
        if self._failures:
            self._fail(self._failures.popleft())
            return
        for key, value in append.records:
            self.log.append(Record(len(self.log), append.timestamp, key, value))
        self._send(self.shard.appended(append.position))

    def _fail(self, error: ErrorCode) -> None:
        """The log refused: answer everyone who waits, and go on from what is stored."""
        self.failures += 1
        self._unload(error)
        self._reload()

    def _unload(self, refused: ErrorCode | None) -> None:
        unloaded = self.shard.unload(self.clock.now, refused)
        self.events += unloaded.events
        self._send(unloaded.replies)
        error = refused or ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._send([Reply(name, self.shard.refuse(each, error)) for name, each in self._waiting.items()])

    def _fire_timers(self) -> None:
        deadline = self.shard.next_deadline()
        if deadline is not None and deadline <= self.clock.instant:
            self.sleep(0)
