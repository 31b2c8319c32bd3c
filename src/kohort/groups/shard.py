"""The door of the core: one partition of ``__consumer_offsets`` and the groups that live in it.

How a shell drives it:

1. ``outcome = shard.handle(command, now)``, one command at a time; ``shard.advance(now)`` whenever
   ``shard.next_deadline()`` has come; ``shard.heartbeat(...)`` for the commonest request of all.
2. Send ``outcome.replies``: they may leave.
3. Append ``outcome.append`` to the log, in order of position, and send what ``appended(position)``
   returns: replies that waited for it. If an append fails, the shard takes for true what is not stored:
   ``handle(Unload(...))``, refuse what is left (``availability.refuse_unstored``), drop the shard and
   load another one from the log.
4. Write ``outcome.events`` to the journal, count them, show them.
5. Do what ``outcome.effects`` ask for (``Effect``) and answer each with its command.
   Tell the shard of topics (``TopicsChanged``, ``TopicDeleted``) and of groups' configurations
   (``GroupConfigured``); what there is when the shard is made is given to it then.

To load: ``replay_batch`` the batches of the log in order, ``load_more(now)`` as long as there is more,
then ``finish_load(now)``. A new partition is loaded from nothing.
"""

from collections.abc import Hashable, Iterable
from copy import deepcopy
from itertools import islice

from kohort.coordination.outcome import size_at_most
from kohort.coordination.positions import Reply
from kohort.coordination.purgatory import DelayedOperation, Purgatory
from kohort.coordination.timers import TimingWheel
from kohort.groups.availability import refuse_unstored
from kohort.groups.classic.heartbeat import answer_heartbeat
from kohort.groups.classic.state import Group
from kohort.groups.commands import (
    Command,
    ConsumerHeartbeat,
    GroupConfigured,
    Request,
    TopicsChanged,
    Unload,
)
from kohort.groups.consumer.heartbeat import answer_quiet_heartbeat
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.dispatch import dispatch
from kohort.groups.fingerprint import fingerprint
from kohort.groups.load import NO_PRODUCER, Loader
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.state import State
from kohort.groups.takeover import Takeover
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, Instant, MemberId, Now, ProducerId
from kohort.model.steady_time import SteadyTime
from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchHeader
from kohort.records.record import Record

WOKEN_AT_A_TIME = 50  # groups: two milliseconds, if they are small
TIMERS_AT_A_TIME = 1_000  # so that an outcome's batch, and the time without requests, stay small


class Shard:
    """Groups and offsets of one partition. Not thread-safe; does no I/O; reads no clock."""

    __slots__ = ("_loader", "state")

    def __init__(
        self,
        settings: GroupSettings,
        start: Instant,
        topics: TopicsChanged | None = None,
        configs: Iterable[GroupConfigured] = (),
        deletion_time: SteadyTime | None = None,
    ) -> None:
        """``deletion_time`` outlives the shard: one that is loaded after a jump of the clock knows of it."""
        wheel = TimingWheel(start)
        self.state = State(
            settings=settings,
            wheel=wheel,
            heartbeats=Purgatory(wheel),
            rebalances=Purgatory(wheel),
            housekeeping=Purgatory(wheel),
            deletion_time=deletion_time or SteadyTime(),
        )
        if topics is not None:
            self.state.topics.put(topics.topics, topics.version)
        self.state.configs.update((each.group_id, each) for each in configs)
        self._loader = Loader(self.state)

    def take_over(self, takeover: Takeover) -> None:
        """Before the load: another node coordinated these groups. It is the cause of what is loaded."""
        self._loader.takeover = takeover

    def handle(self, command: Command, now: Now) -> Outcome:
        """Do what ``command`` asks for."""
        out = Outcome(self.state, now)
        dispatch(command, out)
        out.close()
        return out

    def appended(self, position: int) -> list[Reply[ReplyBody]]:
        """The log has stored everything up to ``position``: the replies that have waited for it."""
        return self.state.positions.store(position)

    def heartbeat(
        self,
        who: tuple[GroupId, MemberId],
        generation: Generation,
        instance_id: InstanceId | None,
        now: Instant,
    ) -> ErrorCode:
        """A heartbeat without command and outcome: it emits nothing and waits for nothing."""
        return answer_heartbeat(self.state, who, generation, instance_id, now)

    def quiet_heartbeat(self, command: ConsumerHeartbeat, now: Instant) -> int | None:
        """The same for a member of a consumer group: the interval to its next heartbeat.

        ``None`` if there may be more to do: it is to be handled as a command then.
        """
        return answer_quiet_heartbeat(self.state, command, now)

    def unload(self, now: Now, refused: ErrorCode | None) -> Outcome:
        """Send away who waits in a group; replies that wait for the log are the runtime's to refuse."""
        return self.handle(Unload(refused), now)

    def refuse(self, command: Command, refused: ErrorCode) -> ReplyBody:
        """The reply to a request whose effect, or what it would have shown, the log has refused."""
        assert isinstance(command, Request)
        return refuse_unstored(command, refused)

    def next_deadline(self) -> Instant | None:
        """When to call ``advance`` next; ``None`` if nothing waits. At once if it is not after now."""
        return self.state.wheel.next_deadline()

    def advance(self, now: Now) -> Outcome:
        """Fire the timers that are due; if some are left, ``next_deadline`` says so.

        What they store goes into one batch: they stop in time for the last of them to find room.
        """
        out = Outcome(self.state, now)
        due = self.state.wheel.expired(now.instant)
        room, seen = self.state.settings.max_batch_bytes // 2, 0
        for operation in islice(due, TIMERS_AT_A_TIME):
            assert isinstance(operation, DelayedOperation)
            operation.expire(out)
            while out.fired:
                dispatch(out.fired.pop(0), out)
            room -= size_at_most(out.records[seen:])
            seen = len(out.records)
            if room < 0 or not out.is_atomic:
                break
        out.close()
        return out

    def replay_batch(self, batch: Buffer, header: BatchHeader) -> None:
        """Take one batch of the log, from the first to the last, before ``finish_load``.

        Raises ``LoadFailedError``, or ``CorruptBatchError`` for bytes that are no records; the partition
        then answers 16 (``Absence.NOT_OWNED``).
        """
        self._loader.replay_batch(batch, header)

    def replay(
        self, records: Iterable[Record], producer: ProducerId = NO_PRODUCER, is_control: bool = False
    ) -> None:
        """Like ``replay_batch``, of records that have been read already."""
        self._loader.replay(records, producer, is_control)

    def load_more(self, now: Now) -> Outcome | None:
        """After the last batch: decode a group, or bring some to life; ``None`` when all are. Raises like
        ``replay_batch``. No command may come before ``finish_load``.
        """
        out = Outcome(self.state, now)
        if self._loader.decode_next() is None:
            self._loader.wake_groups(out, WOKEN_AT_A_TIME)
            if not out.events:
                return None
        out.close()
        return out

    def finish_load(self, now: Now) -> Outcome:
        """The log is read: groups come to life, their members' sessions start. Raises like ``replay``.

        Ten thousand groups take a tenth of a second; what ``load_more`` has done is not done again.
        """
        out = Outcome(self.state, now)
        self._loader.finish(out)
        self._loader = Loader(self.state)
        out.close()
        return out

    @property
    def skipped(self) -> dict[str, int]:
        """What ``replay`` did not understand and left alone, with how often; for the log of the shell."""
        return self._loader.skipped

    def group(self, group_id: GroupId) -> Group | None:
        """A classic group, to look at."""
        found = self.state.groups.get(group_id)
        return found if isinstance(found, Group) else None

    def consumer_group(self, group_id: GroupId) -> ConsumerGroup | None:
        """A consumer group, to look at."""
        return self.state.consumer(group_id)

    def copy(self) -> "Shard":
        """A shard of its own in the same state."""
        return deepcopy(self)

    def fingerprint(self, now: Instant) -> Hashable:
        """The state in canonical form; states that will behave alike have equal ones."""
        return fingerprint(self.state, now)
