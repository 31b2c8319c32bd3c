"""How the budget is shared, and who is closed."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from kohort.broker.memory_budget import SMALL, MemoryBudget, Progress

KIB = 1024
MIB = 1024 * KIB
LIMIT = 100 * MIB
PATIENCE_S = 10.0


class VirtualLoop:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        self._due.append((self.now + delay, callback))
        return cast(asyncio.TimerHandle, _Timer())

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [each for each in self._due if each[0] <= end]:
            first = min(due, key=lambda each: each[0])
            self._due.remove(first)
            self.now = first[0]
            first[1]()
        self.now = end


class _Timer:
    def cancel(self) -> None:
        """Nothing is fired after the test."""


class Peer:
    """A connection: what it sends, and what became of it."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.is_read = False
        self.reasons: list[str] = []
        self.at: Progress | None = Progress(0, 0, 0)
        self._size = 0

    @property
    def closed(self) -> str:
        return "".join(self.reasons)

    def send(self, size: int) -> "Peer":
        self._size = size
        if self.budget.admit(self, size):
            self.may_be_read()
        return self

    def may_be_read(self) -> None:
        self.is_read = True
        self.budget.hold(self, self._size)

    def done(self) -> None:
        self.budget.hold(self, 0)

    def progress(self) -> Progress | None:
        return self.at

    def shed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.budget.forget(self)


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


@pytest.fixture
def budget(loop: VirtualLoop) -> MemoryBudget:
    return MemoryBudget(LIMIT, PATIENCE_S, loop, print)


def sent(budget: MemoryBudget, *sizes: int) -> list[Peer]:
    return [Peer(budget).send(size) for size in sizes]


# Who waits


def test_a_small_request_never_waits_and_the_operator_hears_of_one_that_does(
    budget: MemoryBudget, capsys: pytest.CaptureFixture[str]
) -> None:
    sent(budget, *[MIB] * 100)
    assert budget.used == LIMIT
    assert Peer(budget).send(SMALL).is_read
    assert capsys.readouterr().out == ""
    assert not Peer(budget).send(SMALL + 1).is_read
    assert f"of {LIMIT:,} bytes (queued.max.request.bytes)" in capsys.readouterr().out


def test_large_requests_leave_a_quarter_to_the_others(budget: MemoryBudget) -> None:
    large = sent(budget, *[25 * MIB] * 4)
    assert [peer.is_read for peer in large] == [True, True, True, False]
    ordinary = sent(budget, *[2 * MIB] * 13)
    assert [peer.is_read for peer in ordinary] == [True] * 12 + [False]


def test_one_large_request_may_always_be_under_way_even_one_above_the_budget(budget: MemoryBudget) -> None:
    first, second = sent(budget, 2 * LIMIT, 3 * MIB)
    assert first.is_read
    assert not second.is_read
    assert Peer(budget).send(2 * MIB).is_read  # ordinary ones have their quarter beside it
    first.done()
    assert second.is_read


def test_a_large_request_that_is_complete_counts_until_its_work_is_done(budget: MemoryBudget) -> None:
    (first,) = sent(budget, 100 * MIB)
    budget.hold(first, 200 * MIB)  # with what is made of it
    (second,) = sent(budget, 100 * MIB)
    assert not second.is_read
    assert Peer(budget).send(2 * MIB).is_read
    first.done()
    assert second.is_read


def test_those_who_wait_are_read_in_the_order_in_which_they_came(budget: MemoryBudget) -> None:
    holders = sent(budget, *[25 * MIB] * 3)
    waiting = sent(budget, 70 * MIB, 10 * MIB, 10 * MIB)
    holders[0].done()
    assert not any(peer.is_read for peer in waiting)  # less large ones do not overtake the first
    holders[1].done()
    holders[2].done()
    assert [peer.is_read for peer in waiting] == [True, False, False]
    waiting[0].done()
    assert [peer.is_read for peer in waiting] == [True, True, True]


def test_ordinary_requests_go_before_large_ones(budget: MemoryBudget) -> None:
    (large,) = sent(budget, 74 * MIB)
    sent(budget, *[MIB] * 26)
    waiting = sent(budget, 20 * MIB, MIB, MIB)
    large.done()
    assert [peer.is_read for peer in waiting] == [True, True, True]
    again = sent(budget, 60 * MIB, MIB)
    assert [peer.is_read for peer in again] == [False, True]


def test_who_hangs_up_waits_no_longer_and_holds_nothing(budget: MemoryBudget) -> None:
    holder, waiting = sent(budget, 90 * MIB, 90 * MIB)
    budget.forget(waiting)
    assert budget.waiting == 0
    budget.forget(holder)
    assert budget.used == 0
    assert not waiting.is_read


def test_a_reply_may_take_a_quarter_of_what_is_free_for_it(budget: MemoryBudget) -> None:
    assert budget.room_for_reply() == LIMIT * 3 // 16
    sent(budget, 35 * MIB)
    assert budget.room_for_reply() == 10 * MIB
    sent(budget, 40 * MIB)
    assert budget.room_for_reply() == 0


# Who is closed


def test_while_half_is_free_nobody_is_closed(budget: MemoryBudget, loop: VirtualLoop) -> None:
    (peer,) = sent(budget, 50 * MIB)
    loop.sleep(100 * PATIENCE_S)
    assert not peer.closed


def test_a_peer_that_holds_much_and_does_not_move_is_closed(budget: MemoryBudget, loop: VirtualLoop) -> None:
    stalled, waiting = sent(budget, 60 * MIB, 60 * MIB)
    loop.sleep(PATIENCE_S)
    assert stalled.closed == ""
    loop.sleep(PATIENCE_S)
    assert stalled.closed == "it held 62,914,560 bytes and moved less than 3,932,160 in 10 s"
    assert waiting.is_read


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "sends"])
def test_a_peer_that_moves_a_sixteenth_in_time_is_left_alone(
    budget: MemoryBudget, loop: VirtualLoop, reads: bool
) -> None:
    busy, idler = sent(budget, 32 * MIB, 32 * MIB)
    for step in range(1, 16):
        moved = step * 2 * MIB
        busy.at = Progress(0, 0, 32 * MIB - moved) if reads else Progress(0, moved, 0)
        idler.at = Progress(0, 0, 32 * MIB - step) if reads else Progress(0, step, 0)
        loop.sleep(PATIENCE_S)
    assert not busy.closed
    assert idler.closed


def test_a_peer_that_waits_for_us_is_left_alone(budget: MemoryBudget, loop: VirtualLoop) -> None:
    (peer,) = sent(budget, 90 * MIB)
    peer.at = None
    loop.sleep(100 * PATIENCE_S)
    assert not peer.closed


def test_what_never_waits_closes_the_oldest_holders_when_it_is_a_quarter_too_much(
    budget: MemoryBudget,
) -> None:
    small = sent(budget, *[SMALL] * 2_100)
    closed = [peer for peer in small if peer.closed]
    assert closed == small[: len(closed)]
    assert len(closed) == 100
    assert small[0].closed == "it held 65,536 bytes for longest, and all of 104,857,600 are taken"
    assert budget.used <= LIMIT * 5 // 4


# Large replies to small requests


def test_a_large_reply_is_made_when_there_is_room_and_one_always_may(budget: MemoryBudget) -> None:
    async def make() -> None:
        first = await budget.take_room(10 * LIMIT)
        assert first == LIMIT // 2  # of what it would cost
        second = asyncio.ensure_future(budget.take_room(LIMIT // 2))
        third = asyncio.ensure_future(budget.take_room(1))
        given_up = asyncio.ensure_future(budget.take_room(1))
        await asyncio.sleep(0)
        given_up.cancel()
        assert not second.done()
        assert not third.done()  # whoever asked first gets it first
        budget.give_room_back(first)
        assert await second == LIMIT // 2
        assert await third == 1
        budget.give_room_back(LIMIT // 2)
        budget.give_room_back(1)
        assert budget.used == 0

    asyncio.run(make())


def test_a_large_reply_that_is_given_up_holds_up_no_other(budget: MemoryBudget) -> None:
    async def make() -> None:
        first = await budget.take_room(LIMIT // 2)
        too_large = asyncio.ensure_future(budget.take_room(LIMIT // 2))
        small = asyncio.ensure_future(budget.take_room(MIB))
        await asyncio.sleep(0)
        too_large.cancel()
        assert await small == MIB  # while the first still has its room
        budget.give_room_back(first)
        budget.give_room_back(MIB)
        assert budget.used == 0

    asyncio.run(make())


def test_room_for_a_large_reply_closes_no_other_connection(budget: MemoryBudget) -> None:
    ordinary = sent(budget, *[MIB] * 100)

    async def make() -> None:
        await budget.take_room(LIMIT)
        ordinary.extend(sent(budget, SMALL // 2))

    asyncio.run(make())
    assert [peer for peer in ordinary if peer.closed] == []
