"""Delayed operations, and where they wait (classic-groups 6.1 and 6.2).

A delayed operation completes exactly once: when its condition is met, or when its time is over.
Think of queueing for a table for at most half an hour: eating is ``on_complete`` and happens once,
whatever ended the wait; the complaint about the long wait is ``on_expiration`` and only follows
when the full time passed.

Nothing here knows about groups: any code that parks requests on a condition and a deadline uses it (the
coordinator for joins, syncs and sessions; a broker for delayed fetches). ``context`` is handed
through to the operation, so that an operation holds ids and no state.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

from kohort.coordination.timers import TimerEntry, TimingWheel
from kohort.model.ids import Instant

C = TypeVar("C")


class DelayedOperation(TimerEntry, Generic[C]):
    """One thing that waits. Subclasses say what for, and what then."""

    __slots__ = ("completed", "keys", "purgatory")

    def __init__(self) -> None:
        super().__init__()
        self.completed = False
        self.keys: tuple[Hashable, ...] = ()
        self.purgatory: Purgatory[C] | None = None

    def __repr__(self) -> str:
        """What it is and waits for: type, and what the subclass keeps."""
        own = (f"{name}={getattr(self, name)!r}" for name in getattr(type(self), "__slots__", ()))
        return f"{type(self).__name__}({', '.join(own)})"

    def try_complete(self, context: C) -> bool:
        """Check the condition; if it is met return ``force_complete(context)``, else False."""
        return False

    def on_complete(self, context: C) -> None:
        """What happens when the wait is over; runs exactly once."""

    def on_expiration(self, context: C) -> None:
        """What happens *after* ``on_complete`` when it was the deadline that ended the wait."""

    def force_complete(self, context: C) -> bool:
        """Complete now, unless that has happened: True for the one call that did it."""
        if self.completed:
            return False
        self.cancel()
        self.on_complete(context)
        return True

    def expire(self, context: C) -> None:
        """The deadline has come. The driver of the timing wheel calls this."""
        if self.force_complete(context):
            self.on_expiration(context)

    def cancel(self) -> None:
        """Stop waiting without running anything, now or ever."""
        self.completed = True
        if self.purgatory is not None:
            self.purgatory.forget(self)


class Purgatory(Generic[C]):
    """Operations that wait, found again by the keys they are watched under."""

    __slots__ = ("_timer", "_watched")

    def __init__(self, timer: TimingWheel) -> None:
        self._timer = timer
        # Nearly always one operation waits under a key (100,000 sessions do): only more make a dict.
        self._watched: dict[Hashable, DelayedOperation[C] | dict[DelayedOperation[C], None]] = {}

    def try_complete_else_watch(
        self, operation: DelayedOperation[C], keys: Sequence[Hashable], deadline: Instant, context: C
    ) -> bool:
        """Complete ``operation`` if its condition is met, else let it wait; True if this completed it."""
        assert keys, "an operation without keys could only time out"
        if operation.try_complete(context):
            return True
        if not operation.completed:
            self.watch(operation, keys, deadline)
        return False

    def watch(self, operation: DelayedOperation[C], keys: Sequence[Hashable], deadline: Instant) -> None:
        """Let ``operation`` wait without looking at its condition."""
        operation.purgatory = self
        operation.keys = tuple(keys)
        for key in operation.keys:
            self._watch(key, operation)
        self._timer.add(operation, deadline)

    def replace(self, operation: DelayedOperation[C], key: Hashable, deadline: Instant, context: C) -> bool:
        """Like ``try_complete_else_watch``, but what waited under ``key`` is cancelled first."""
        self.cancel(key)
        return self.try_complete_else_watch(operation, (key,), deadline, context)

    def postpone(self, operation: DelayedOperation[C], deadline: Instant) -> None:
        """Move the deadline of an operation that waits here; to a later time this is one write."""
        self._timer.postpone(operation, deadline)

    def check_and_complete(self, key: Hashable, context: C) -> int:
        """Something happened that operations under ``key`` may have waited for: how many completed."""
        return sum(
            1
            for operation in self.watched(key)
            if not operation.completed and operation.try_complete(context)
        )

    def cancel(self, key: Hashable) -> int:
        """Cancel whatever waits under ``key``, even if it has expired and is queued to run."""
        watched = self.watched(key)
        for operation in watched:
            operation.cancel()
        return len(watched)

    def find(self, key: Hashable) -> DelayedOperation[C] | None:
        """What has waited longest under ``key``."""
        found = self._watched.get(key)
        return next(iter(found)) if isinstance(found, dict) else found

    def watched(self, key: Hashable) -> tuple[DelayedOperation[C], ...]:
        """What waits under ``key``, longest first."""
        found = self._watched.get(key)
        if found is None:
            return ()
        return tuple(found) if isinstance(found, dict) else (found,)

    def forget(self, operation: DelayedOperation[C]) -> None:
        """Drop an operation from the timer and from every key it is watched under."""
        self._timer.cancel(operation)
        for key in operation.keys:
            found = self._watched[key]
            if isinstance(found, dict) and len(found) > 1:
                del found[operation]
            else:
                del self._watched[key]
        operation.keys = ()

    def __iter__(self) -> Iterator[DelayedOperation[C]]:
        """Every operation that waits; once for each key it is watched under."""
        for key in self._watched:
            yield from self.watched(key)

    def __len__(self) -> int:
        """How many keys are watched."""
        return len(self._watched)

    def _watch(self, key: Hashable, operation: DelayedOperation[C]) -> None:
        found = self._watched.setdefault(key, operation)
        if isinstance(found, dict):
            found[operation] = None
        elif found is not operation:
            self._watched[key] = {found: None, operation: None}
