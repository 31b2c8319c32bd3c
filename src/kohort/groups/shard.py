"""The door of the core: one partition of ``__consumer_offsets`` and the groups that live in it.

How a shell drives it:

1. ``outcome = shard.handle(command, now)``, one command at a time; ``shard.advance(now)`` whenever
   ``shard.next_deadline()`` has come; ``shard.heartbeat(...)`` for the commonest request of all.
2. Send ``outcome.replies``: they may leave.
3. Append ``outcome.append`` (one record batch) to the log, in order of position, and report with
   ``Appended(position)`` or ``AppendFailed(position, error)``. Several batches may go in one write;
   ``Appended`` confirms every position up to its own that was not reported as failed, so reports
   come in order of position.
4. Write ``outcome.events`` to the journal, count them, show them.

To load: ``replay_batch`` the batches of the log in order, then ``finish_load(now)``. A new partition is
loaded from nothing.
"""

from collections.abc import Hashable, Iterable, Iterator
from copy import deepcopy
from itertools import islice

from kohort.groups.classic.heartbeat import answer_heartbeat
from kohort.groups.classic.state import Group
from kohort.groups.commands import Command
from kohort.groups.dispatch import dispatch
from kohort.groups.fingerprint import fingerprint
from kohort.groups.load import NO_PRODUCER, Loader
from kohort.groups.outcome import Outcome
from kohort.groups.purgatory import DelayedOperation, Purgatory
from kohort.groups.settings import GroupSettings
from kohort.groups.state import State
from kohort.groups.timers import TimingWheel
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, Instant, MemberId, Now, ProducerId
from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchHeader
from kohort.records.record import Record

TIMERS_AT_A_TIME = 1_000  # so that an outcome's batch, and the time without requests, stay small


class Shard:
    """Groups and offsets of one partition. Not thread-safe; does no I/O; reads no clock."""

    __slots__ = ("_loader", "state")

    def __init__(self, settings: GroupSettings, start: Instant) -> None:
        wheel = TimingWheel(start)
        self.state = State(
            settings=settings,
            wheel=wheel,
            heartbeats=Purgatory(wheel),
            rebalances=Purgatory(wheel),
            housekeeping=Purgatory(wheel),
        )
        self._loader = Loader(self.state.offsets)

    def handle(self, command: Command, now: Now) -> Outcome:
        """Do what ``command`` asks for."""
        out = Outcome(self.state, now)
        dispatch(command, out)
        return out.close()

    def heartbeat(
        self,
        who: tuple[GroupId, MemberId],
        generation: Generation,
        instance_id: InstanceId | None,
        now: Instant,
    ) -> ErrorCode:
        """A heartbeat without command and outcome: it emits nothing and waits for nothing."""
        return answer_heartbeat(self.state, who, generation, instance_id, now)

    def next_deadline(self) -> Instant | None:
        """When to call ``advance`` next; ``None`` if nothing waits. At once if it is not after now."""
        return self.state.wheel.next_deadline()

    def advance(self, now: Now) -> Outcome:
        """Fire the timers that are due; if more than a thousand are, ``next_deadline`` says so."""
        out = Outcome(self.state, now)
        due = self.state.wheel.expired(now.instant)
        for operation in islice(due, TIMERS_AT_A_TIME):
            assert isinstance(operation, DelayedOperation)
            operation.expire(out)
            while out.fired:
                dispatch(out.fired.pop(0), out)
        return out.close()

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

    def decode_groups(self) -> Iterator[GroupId]:
        """Decode the groups that were replayed, a step for each. Raises like ``replay``.

        Large ones take a while; ``finish_load`` does what is left of it.
        """
        return self._loader.decode_groups()

    def wake_groups(self, now: Now, most: int) -> Outcome:
        """Bring some of the decoded groups to life; an outcome without events says that all are.

        Nobody may ask the shard before ``finish_load``.
        """
        out = Outcome(self.state, now)
        self._loader.wake_groups(out, most)
        return out.close()

    def finish_load(self, now: Now) -> Outcome:
        """The log is read: groups come to life, their members' sessions start. Raises like ``replay``.

        Ten thousand groups take a tenth of a second; what ``wake_groups`` has done is not done again.
        """
        out = Outcome(self.state, now)
        self._loader.finish(out)
        self._loader = Loader(self.state.offsets)
        return out.close()

    @property
    def skipped(self) -> dict[str, int]:
        """What ``replay`` did not understand and left alone, with how often; for the log of the shell."""
        return self._loader.skipped

    def group(self, group_id: GroupId) -> Group | None:
        """A group, to look at."""
        return self.state.groups.get(group_id)

    def copy(self) -> "Shard":
        """A shard of its own in the same state."""
        return deepcopy(self)

    def fingerprint(self, now: Instant) -> Hashable:
        """The state in canonical form; states that will behave alike have equal ones."""
        return fingerprint(self.state, now)
