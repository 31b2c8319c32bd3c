"""What a command led to in a shard of groups."""

from collections.abc import Sequence
from typing import Any

from kohort.coordination.outcome import CommandOutcome, KeyValue
from kohort.groups.apply import apply
from kohort.groups.commands import Fired
from kohort.groups.encoding import encode
from kohort.groups.events import DURABLE, DurableEvent, Event
from kohort.groups.replies import ReplyBody
from kohort.groups.state import State
from kohort.model.ids import GroupId, Now


class Outcome(CommandOutcome[Event, ReplyBody]):
    """Collects while a command is handled. Every event is true for the next line that decides."""

    __slots__ = ("_measured", "fired", "state")

    def __init__(self, state: State, now: Now) -> None:
        super().__init__(state.positions, now)
        self.state = state
        self.fired: list[Fired] = []  # commands of timers, to be handled next
        self._measured: dict[int, tuple[DurableEvent, tuple[KeyValue, ...]]] = {}

    def emit(self, event: Event) -> None:
        """Make an event true and collect it; a durable one goes to the log with this outcome."""
        apply(self.state, event)
        self.events.append(event)
        if type(event) in DURABLE:
            self._store(event)

    def emit_together(
        self, events: Sequence[DurableEvent], records: tuple[KeyValue, ...] | None = None
    ) -> bool:
        """Make events true if the log can take all of them in one batch; else none of them is.

        ``records`` are those of the events, if they are made already.
        """
        records = encode(events) if records is None else records
        if not self.fits_with(records, self.state.settings.max_batch_bytes):
            return False
        for event in events:
            apply(self.state, event)
        self.events += events
        if records:
            self.write(events[0].group_id, records)
        return True

    def fits(self, *events: DurableEvent) -> bool:
        """Whether the log can take these events beside what is stored already; asked before ``emit``."""
        self._measured = {id(event): (event, encode((event,))) for event in events}
        records = [record for _, some in self._measured.values() for record in some]
        return self.fits_with(records, self.state.settings.max_batch_bytes)

    def rests_on(self, group_id: GroupId) -> int:
        """The position of what is not stored yet of a group: what shows the group waits for it."""
        return self.state.positions.of(group_id)

    def _store(self, event: Any) -> None:  # noqa: ANN401 - a durable event, as ``emit`` has found
        _, records = self._measured.get(id(event)) or (event, encode((event,)))
        self.write(event.group_id, records)
