"""One budget for the bytes of requests that are being received and of replies that are being sent.

Kafka's ``queued.max.request.bytes``. A connection whose request does not fit is not read until others are
done; other connections notice nothing. How it is shared:

- A request of up to 64 KiB never waits, so a member's heartbeats and commits always come through.
- A request of up to 2 MiB waits only when the whole budget is taken; larger ones leave a quarter of it free.
  While a quarter at most is taken, one of any size is read, or a small budget would never take it.
- A request counts with its announced size from its first bytes until it is answered; its memory grows as it
  comes in. A reply counts while its bytes are not sent. A Fetch takes a quarter of what is free, at most.
- A large reply to a small request (ListGroups, say) is made when a quarter of the budget is still free with
  it, or when no other is being made; it takes half of the budget at most.
- While more than half is taken, a peer that holds some of it has to move a sixteenth of that in every
  ``patience_s``, or its connection is closed. What never waits can take more than there is: when that is a
  quarter too much, the connection that has held its part for longest is closed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

_KIB = 1024
_MIB = 1024 * _KIB

FREE = 4 * _KIB
"""Not counted: every connection may have the start of an ordinary request."""

SMALL = 64 * _KIB
_ORDINARY = 2 * _MIB
_LEAST_MOVED = 16  # a 16th of what is held has to move within the patience
_PARTS_FOR_A_FETCH = 4


class Progress(NamedTuple):
    """How far a peer has come: requests it has finished, bytes of the next one, bytes of replies unread."""

    requests: int
    received: int
    unsent: int

    def moved_since(self, before: "Progress", least: int) -> bool:
        """Whether it has done something that counts since then."""
        if self.requests != before.requests:
            return True
        return abs(self.received - before.received) + abs(self.unsent - before.unsent) >= least


class Holder(Protocol):
    """A connection, as far as the budget knows it."""

    def may_be_read(self) -> None:
        """The request that did not fit is admitted."""
        ...

    def progress(self) -> Progress | None:
        """How far its peer has come; None while the peer waits for us."""
        ...

    def shed(self, reason: str) -> None:
        """Close at once, and give back what is held."""
        ...


class Loop(Protocol):
    """The part of an event loop that is needed here."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle: ...


class MemoryBudget:
    """Who holds how much, and who waits. One for a broker."""

    def __init__(self, limit: int, patience_s: float, loop: Loop, warn: Callable[[str], None]) -> None:
        self._loop = loop
        self._warn = warn  # of the operator, who may want to give it more
        self.limit = limit
        self.used = 0
        self._patience_s = patience_s
        self._held: dict[Holder, int] = {}  # the one that has held its part for longest first
        self._large: dict[Holder, int] = {}  # requests over 2 MiB, until they are answered
        self._waiting: dict[Holder, int] = {}  # requests that do not fit yet, the oldest first
        self._reserved = 0  # for large replies that are being made
        self._replies: deque[tuple[int, asyncio.Future[None]]] = deque()  # those that have no room yet
        self._seen: dict[Holder, tuple[Progress, float]] = {}  # when a holder last came on
        self._check: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many connections are not read because what they send does not fit."""
        return len(self._waiting)

    def room_for_reply(self) -> int:
        """How many bytes a reply may have whose size can be chosen; 0 if it should come later."""
        return max(self.limit * 3 // 4 - self.used, 0) // _PARTS_FOR_A_FETCH

    async def take_room(self, price: int) -> int:
        """Wait until there is room for a reply that is to be made; the room, for ``give_room_back``."""
        room = min(price, self.limit // 2)
        if self._replies or not self._has_room(room):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._replies.append((room, turn))
            self._look_after_it()
            try:
                await turn
            except asyncio.CancelledError:  # its client is gone
                if turn.cancelled():
                    self._replies.remove((room, turn))
                    self._let_in()
                else:
                    self.give_room_back(room)
                raise
        else:
            self._reserve(room)
        return room

    def give_room_back(self, room: int) -> None:
        """The reply is made: its bytes count as long as they are not sent."""
        self.used -= room
        self._reserved -= room
        self._let_in()

    def _reserve(self, room: int) -> None:
        self.used += room
        self._reserved += room

    def _has_room(self, room: int) -> bool:
        return not self._reserved or self.used + room <= self.limit * 3 // 4

    def admit(self, holder: Holder, size: int) -> bool:
        """Whether a request of this size may be read now; if not, ``may_be_read`` is called later."""
        if not self._fits(size) or self._is_overtaking(size):
            self._waiting[holder] = size
            self._warn(
                f"requests and replies hold {self.used:,} of {self.limit:,} bytes "
                f"(queued.max.request.bytes): {self.waiting} more wait, the last of {size:,} bytes"
            )
            self._look_after_it()
            return False
        self._enter(holder, size)
        return True

    def hold(self, holder: Holder, size: int) -> None:
        """A connection holds ``size`` bytes from now on, all in all."""
        before = self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        else:
            self._seen.pop(holder, None)
        self.used += size - before
        if holder in self._large:
            if size < self._large[holder]:
                del self._large[holder]  # it is answered
            else:
                self._large[holder] = size  # it is worked on: with what is made of it
        if size < before:
            self._let_in()
        elif self._is_too_much:
            self._shed_oldest()
        if self._is_tight:
            self._look_after_it()

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self._waiting.pop(holder, None)
        self._large.pop(holder, None)
        self.hold(holder, 0)

    def close(self) -> None:
        """The broker stops."""
        if self._check is not None:
            self._check.cancel()

    @property
    def _is_tight(self) -> bool:
        return self.used > self.limit // 2 or bool(self._waiting or self._replies)

    @property
    def _is_too_much(self) -> bool:
        # Room for a reply that is to be made is not theirs who hold the rest.
        return self.used - self._reserved > max(self.limit, sum(self._large.values())) + self.limit // 4

    def _fits(self, size: int) -> bool:
        if size <= SMALL:
            return True
        if size <= _ORDINARY:
            others = self.used - sum(self._large.values())
            return self.used + size <= self.limit or others + size <= self.limit // 4
        return self.used <= self.limit // 4 or self.used + size <= self.limit * 3 // 4

    def _is_overtaking(self, size: int) -> bool:
        """Whether others of its kind wait already; ordinary requests go before large ones."""
        return size > SMALL and any(
            size > _ORDINARY or other <= _ORDINARY for other in self._waiting.values()
        )

    def _enter(self, holder: Holder, size: int) -> None:
        if size > _ORDINARY:
            self._large[holder] = size

    def _let_in(self) -> None:
        """Those who fit now, in the order in which they came; the first large one holds up all large ones."""
        while self._replies and self._has_room(self._replies[0][0]):
            room, turn = self._replies[0]
            if turn.done():
                break  # its client is gone: it is about to go itself
            self._replies.popleft()
            self._reserve(room)
            turn.set_result(None)
        is_held_up = False
        for holder, size in list(self._waiting.items()):
            if holder not in self._waiting or (is_held_up and size > _ORDINARY):
                continue
            if self._fits(size):
                del self._waiting[holder]
                self._enter(holder, size)
                holder.may_be_read()
            elif size > _ORDINARY:
                is_held_up = True
            else:
                return

    def _shed_oldest(self) -> None:
        for holder, size in list(self._held.items()):
            if not self._is_too_much:
                return
            if holder in self._waiting or holder.progress() is not None:
                holder.shed(f"it held {size:,} bytes for longest, and all of {self.limit:,} are taken")

    # Peers that do not come on

    def _look_after_it(self) -> None:
        if self._check is None:
            self._check = self._loop.call_later(self._patience_s / 4, self._close_stalled)

    def _close_stalled(self) -> None:
        self._check = None
        if not self._is_tight:
            self._seen.clear()
            return
        now = self._loop.time()
        for holder, size in list(self._held.items()):
            progress = holder.progress()
            if progress is None:
                self._seen.pop(holder, None)
                continue
            before, since = self._seen.get(holder, (None, now))
            least = size // _LEAST_MOVED
            if before is None or progress.moved_since(before, least):
                self._seen[holder] = (progress, now)
            elif now - since >= self._patience_s:
                holder.shed(f"it held {size:,} bytes and moved less than {least:,} in {now - since:.0f} s")
        self._look_after_it()
