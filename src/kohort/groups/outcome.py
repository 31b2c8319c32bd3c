"""What a command led to: events that are true now, a batch for the log, replies that may leave."""

from typing import NamedTuple

from kohort.groups.apply import apply
from kohort.groups.commands import FetchOffsets, Fired
from kohort.groups.encoding import encode
from kohort.groups.events import DurableEvent, Event
from kohort.groups.replies import Reply, ReplyBody
from kohort.groups.state import State
from kohort.groups.writes import InFlight, Read, Write
from kohort.model.ids import Now, ReplyTo, WallTime


class Append(NamedTuple):
    """One atomic record batch for the shell to append; batches go to the log in order of position."""

    position: int
    records: tuple[tuple[bytes, bytes | None], ...]  # key and value; a null value is a tombstone
    timestamp: WallTime


class Outcome:
    """Collects while a command is handled; read by the shell afterwards.

    A soft event is true at once. A durable event becomes true when the log has it: it is in
    ``append`` now and in the ``events`` of the outcome of ``Appended`` later.
    """

    __slots__ = ("_stored", "_writes", "append", "events", "fired", "now", "replies", "state")

    def __init__(self, state: State, now: Now) -> None:
        self.state = state
        self.now = now
        self.events: list[Event] = []
        self.replies: list[Reply] = []
        self.append: Append | None = None
        self.fired: list[Fired] = []  # commands of timers, to be handled next
        self._stored: list[DurableEvent] = []
        self._writes: list[Write] = []

    def emit(self, event: Event) -> None:
        """Make an event true, and tell of it."""
        apply(self.state, event)
        self.events.append(event)

    def store(self, *events: DurableEvent) -> None:
        """Send events to the log with this outcome's batch."""
        self._stored += events

    def when_stored(self, write: Write) -> None:
        """Do what ``write`` says when the log has taken or refused this outcome's batch."""
        self._writes.append(write)

    @property
    def is_storing(self) -> bool:
        """Whether this outcome has something for the log."""
        return bool(self._stored)

    def reply(self, reply_to: ReplyTo, body: ReplyBody, after: int = 0) -> None:
        """Answer a request; the reply leaves with this outcome."""
        self.replies.append(Reply(reply_to, body, after))

    def reply_to_read(self, read: Read, body: ReplyBody) -> None:
        """Answer a read that shows what commands did: it leaves when all they stored is safe."""
        newest = self._newest_in_flight()
        if newest is None:
            self.reply(read.reply_to, body)
        else:
            newest.reads.append((read, Reply(read.reply_to, body, newest.position)))

    def wait_for_writes(self, fetch: FetchOffsets) -> bool:
        """Put a stable fetch behind everything on its way to the log; False if there is nothing."""
        newest = self._newest_in_flight()
        if newest is None:
            return False
        newest.stable_fetches.append(fetch)
        return True

    def close(self) -> "Outcome":
        """Give what is to be stored its position; called once, when the command is handled."""
        if self._stored:
            state = self.state
            state.position += 1
            state.in_flight[state.position] = InFlight(
                state.position, tuple(self._stored), tuple(self._writes)
            )
            self.append = Append(state.position, encode(self._stored), self.now.wall)
        return self

    def _newest_in_flight(self) -> InFlight | None:
        in_flight = self.state.in_flight
        return in_flight[next(reversed(in_flight))] if in_flight else None
