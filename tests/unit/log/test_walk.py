"""Walking over batches, also where there are none."""

import pytest
from tests.unit.log.bench import batch

from kohort.log.files.memory import MemoryFile
from kohort.log.files.walk import batch_size, headers, spans, whole_batches
from kohort.records.batch import CorruptBatchError

CONTENT = batch(b"a", b"b") + batch(b"c", base_offset=2)
FIRST = len(batch(b"a", b"b"))


def file_of(content: bytes) -> MemoryFile:
    file = MemoryFile()
    file.write(content, 0)
    return file


def test_each_batch_has_its_span_and_its_header() -> None:
    file = file_of(CONTENT)
    assert list(spans(file, 0, len(CONTENT))) == [(0, FIRST, 1), (FIRST, len(CONTENT), 2)]
    assert [(position, header.last_offset) for position, header in headers(file, 0, len(CONTENT))] == [
        (0, 1),
        (FIRST, 2),
    ]
    assert batch_size(file, 0) == FIRST


def test_headers_stop_before_a_batch_that_is_cut() -> None:
    file = file_of(CONTENT[:-1])
    assert [position for position, _ in headers(file, 0, len(CONTENT) - 1)] == [0]
    # A span is believed: its end tells that something is missing.
    assert list(spans(file, 0, len(CONTENT) - 1))[-1][1] == len(CONTENT)


def test_what_is_no_batch_is_not_walked_over() -> None:
    for walk in (spans, headers):
        with pytest.raises(CorruptBatchError):
            list(walk(file_of(bytes(100)), 0, 100))
        with pytest.raises(CorruptBatchError, match="ends inside"):
            list(walk(file_of(b"short"), 0, 100))


@pytest.mark.parametrize(
    ("kept", "expected"), [(len(CONTENT), (len(CONTENT), 3)), (FIRST + 9, (FIRST, 2)), (FIRST - 1, (0, 0))]
)
def test_whole_batches_are_told_from_one_that_is_cut(kept: int, expected: tuple[int, int]) -> None:
    assert whole_batches(CONTENT[:kept], 0) == expected


def test_a_walk_that_begins_at_a_cut_batch_knows_what_comes_next() -> None:
    assert whole_batches(CONTENT[: FIRST + 9], FIRST) == (FIRST, 2)
