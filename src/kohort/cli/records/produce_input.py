"""Where the records of ``kohort produce`` come from: lines of a file or a pipe, or nowhere at all."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from string import ascii_letters, digits

from kohort.cli.records.record_input import InputRecord, InputStyle, parse_record
from kohort.cli.settings_text import InputError
from kohort.records.batch import Header

_CHUNK = 256 * 1024
_ROUND = 500  # synthetic records at a time
_PRINTABLE = (ascii_letters + digits + "-_").encode() * 4  # one of 64 for each of 256


# Lines


async def chunks_of(file: int) -> AsyncIterator[bytes]:
    """What a file has, as it comes; nothing is read ahead, and waiting can be cancelled."""
    while True:
        await _readable(file)
        received = os.read(file, _CHUNK)
        if not received:
            return
        yield received


async def _readable(file: int) -> None:
    """Wait for a pipe or a keyboard. A regular file cannot be waited for: it always is."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(file, ready.set)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)


async def records_of(chunks: AsyncIterator[bytes], style: InputStyle) -> AsyncIterator[list[InputRecord]]:
    """The records of all lines, as many at a time as there are; InputError names the line."""
    lines = 0
    left = b""
    async for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        if whole:
            yield [_record(line, lines + number, style) for number, line in enumerate(whole, 1)]
            lines += len(whole)
    if left:
        yield [_record(left, lines + 1, style)]


def _record(line: bytes, number: int, style: InputStyle) -> InputRecord:
    text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
    try:
        return parse_record(text, style)
    except InputError as error:
        raise InputError(f"line {number}: {error.args[0]}", hint=error.hint) from None


# Records that mean nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """Records made up for demonstrations and measurements: the same seed gives the same records."""

    count: int
    size: int = 100
    keys: int = 1_000  # how many different ones; 0: none
    seed: int = 0
    headers: Sequence[Header] = ()
    partition: int | None = None

    def records(self) -> Iterator[InputRecord]:
        dice = random.Random(self.seed)
        for _ in range(self.count):
            key = b"key-%d" % dice.randrange(self.keys) if self.keys else None
            value = dice.randbytes(self.size).translate(_PRINTABLE)
            yield InputRecord(value, key, self.headers, self.partition)

    async def rounds(self) -> AsyncIterator[list[InputRecord]]:
        """All of them, some at a time."""
        made = self.records()
        while some := list(islice(made, _ROUND)):
            yield some


# Not too fast


class Pace:
    """Lets a number of records through in a second, evenly."""

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._step = 1 / per_second
        self._clock = clock
        self._pause = pause
        self._due = clock()

    async def turn(self) -> None:
        """Wait until the next one may go. Time that was lost elsewhere is not made up for."""
        now = self._clock()
        if self._due > now:
            await self._pause(self._due - now)
        self._due = max(self._due, now) + self._step
