"""Where the records to be written come from."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from kohort.cli.records.produce_input import Pace, Synthetic, chunks_of, records_of
from kohort.cli.records.record_input import InputRecord, InputStyle
from kohort.cli.settings_text import InputError


async def given(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def rounds(style: InputStyle, *chunks: bytes) -> list[list[InputRecord]]:
    async def collect() -> list[list[InputRecord]]:
        return [records async for records in records_of(given(*chunks), style)]

    return asyncio.run(collect())


def test_lines_are_records_wherever_the_input_is_cut() -> None:
    found = rounds(InputStyle(), b"one\r\ntw", b"o", b"\n\nla", b"st")
    assert [[record.value for record in some] for some in found] == [[b"one"], [b"two", b""], [b"last"]]


def test_a_line_that_is_no_record_is_named_by_its_number() -> None:
    with pytest.raises(InputError, match=r"^line 3: there is no ':' in 'c'") as caught:
        rounds(InputStyle(key_separator=":"), b"a:1\nb:2\n", b"c\n")
    assert "--key-separator" in caught.value.hint
    with pytest.raises(InputError, match=r"^line 2: "):
        rounds(InputStyle(key_separator=":"), b"a:1\nb")


async def read_all(file: int) -> bytes:
    return b"".join([chunk async for chunk in chunks_of(file)])


def test_a_file_and_a_pipe_are_read_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 600_000)
    file = os.open(path, os.O_RDONLY)
    assert asyncio.run(read_all(file)) == b"x" * 600_000
    os.close(file)
    reading, writing = os.pipe()

    def write() -> None:
        os.write(writing, b"y" * 1_000)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    assert asyncio.run(read_all(reading)) == b"y" * 1_000
    writer.join()
    os.close(reading)


def test_waiting_for_a_pipe_can_be_cancelled() -> None:
    reading, writing = os.pipe()

    async def story() -> None:
        task = asyncio.get_running_loop().create_task(read_all(reading))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    os.close(reading)
    os.close(writing)


def test_the_same_seed_makes_the_same_records() -> None:
    first, again = (list(Synthetic(count=50, size=20, keys=3, seed=7).records()) for _ in range(2))
    assert first == again
    assert first != list(Synthetic(count=50, size=20, keys=3, seed=8).records())
    assert {record.key for record in first} == {b"key-0", b"key-1", b"key-2"}
    assert all(len(record.value or b"") == 20 and (record.value or b"").isascii() for record in first)


def test_records_that_are_made_up_come_in_rounds_none_left_out() -> None:
    synthetic = Synthetic(count=1_201, size=8, keys=0, headers=[("h", b"x")], partition=2)

    async def collect() -> list[list[InputRecord]]:
        return [some async for some in synthetic.rounds()]

    found = asyncio.run(collect())
    assert [len(some) for some in found] == [500, 500, 201]
    assert [record for some in found for record in some] == list(synthetic.records())
    assert found[0][0][1:] == (None, [("h", b"x")], 2, None)


class Clock:
    """Time that passes only by pausing."""

    def __init__(self) -> None:
        self.now = 0.0

    async def pause(self, seconds: float) -> None:
        self.now += seconds


def test_a_pace_lets_them_through_evenly_and_makes_nothing_up() -> None:
    clock = Clock()
    passed: list[float] = []

    async def story() -> None:
        pace = Pace(4, lambda: clock.now, clock.pause)
        for number in range(6):
            if number == 3:
                clock.now += 10
            await pace.turn()
            passed.append(clock.now)

    asyncio.run(story())
    assert [later - earlier for earlier, later in pairwise(passed)] == [0.25, 0.25, 10, 0.25, 0.25]
