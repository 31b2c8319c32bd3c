"""Log positions: what a shard has handed to the log, what of it is stored, and who waits for the rest.

A shard changes its state at once and hands records to the log under a position. A reply that shows
such a change names the position it rests on, and leaves when the log has stored it.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from kohort.model.ids import ReplyTo

R = TypeVar("R")

NOTHING = 0  # the position of a reply that rests on nothing: it leaves at once


class Reply(NamedTuple, Generic[R]):
    """The one answer to the request ``reply_to``; ``after`` is the log position that it rests on."""

    reply_to: ReplyTo
    body: R
    after: int = NOTHING


class Positions(Generic[R]):
    """The positions of one shard, counted from 1 since it was loaded."""

    __slots__ = ("_unstored", "parked", "stored", "written")

    def __init__(self) -> None:
        self.written = NOTHING  # the newest position that was handed to the log
        self.stored = NOTHING  # the newest position that the log has reported
        self.parked: dict[int, list[Reply[R]]] = {}  # replies that wait, by the position they rest on
        self._unstored: dict[Hashable, int] = {}  # the newest position of each subject, oldest first

    def write(self) -> int:
        """The position of the next batch for the log."""
        self.written += 1
        return self.written

    def changed(self, subject: Hashable, position: int) -> None:
        """Note that ``subject`` (a group, say) changes in the batch of ``position``."""
        self._unstored.pop(subject, None)
        self._unstored[subject] = position

    def of(self, subject: Hashable) -> int:
        """What a reply about ``subject`` rests on: its newest change that is not stored yet."""
        return self._unstored.get(subject, NOTHING)

    def newest(self) -> int:
        """What a reply about everything rests on."""
        return self.written if self.written > self.stored else NOTHING

    def park(self, reply: Reply[R]) -> None:
        """Keep a reply until the log has stored what it rests on."""
        self.parked.setdefault(reply.after, []).append(reply)

    def store(self, position: int) -> list[Reply[R]]:
        """The log has everything up to ``position``: the replies that may leave now, in order."""
        released: list[Reply[R]] = []
        if self.parked:
            for each in range(self.stored + 1, position + 1):
                released += self.parked.pop(each, ())
        self.stored = max(self.stored, position)
        unstored = self._unstored
        while unstored:
            subject = next(iter(unstored))
            if unstored[subject] > position:
                break
            del unstored[subject]
        return released
