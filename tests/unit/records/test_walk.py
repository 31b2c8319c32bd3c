"""Payloads, checked without making records of them. What is refused is in ``test_record``."""

import pytest

from kohort.records.batch import NewRecord, build_batch, read_header
from kohort.records.record import encode_record
from kohort.records.walk import Walk, walk_records

T = 1_700_000_000_000
HEADER = read_header(build_batch([NewRecord(T, None, None)]))


def test_a_walk_tells_timestamps_and_missing_keys() -> None:
    payload = b"".join(
        encode_record(delta, place, key, b"v" * 300, [("h", None)])
        for place, (delta, key) in enumerate([(3, None), (-900, b""), (70_000, b"k" * 99), (4, None)])
    )
    walk = walk_records(payload, HEADER._replace(records_count=4))
    assert walk == Walk(in_order=True, oldest=T - 900, newest=T + 70_000, null_keys=[0, 3])


def test_a_base_that_no_record_has_does_not_count() -> None:
    payload = encode_record(5, 0, None, None, ()) + encode_record(9, 1, None, None, ())
    walk = walk_records(payload, HEADER._replace(records_count=2))
    assert (walk.oldest, walk.newest) == (T + 5, T + 9)


@pytest.mark.parametrize(
    "deltas", [(1,), (0, 2), (1, 0), (0, 0), (0, -1), (*range(200), 500), (*range(200), 20_000)]
)
def test_offsets_out_of_place_are_noticed(deltas: tuple[int, ...]) -> None:
    payload = b"".join(encode_record(0, delta, None, None, ()) for delta in deltas)
    assert not walk_records(payload, HEADER._replace(records_count=len(deltas))).in_order


def test_many_offsets_in_place_are_in_order() -> None:
    payload = b"".join(encode_record(0, delta, None, None, ()) for delta in range(9000))
    assert walk_records(payload, HEADER._replace(records_count=9000)).in_order


def test_nothing_is_in_order() -> None:
    assert walk_records(b"", HEADER._replace(records_count=0)) == Walk(True, T, T, [])
