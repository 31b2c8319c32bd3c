"""What interrupted deletions and compactions leave, and what becomes of it."""

import pytest
from tests.unit.log.bench import batch

from kohort.log.files.leftovers import base_of, tidy
from kohort.records.batch import BatchFields
from kohort.testing.faults import FakeDisk

A, B, C = (f"{offset:020d}" for offset in (0, 10, 20))


@pytest.fixture
def disk() -> FakeDisk:
    disk = FakeDisk()
    disk.make_directory("p")
    return disk


def put(disk: FakeDisk, *names: str, content: bytes = b"") -> None:
    for name in names:
        disk.open(f"p/{name}", create=True).write(content, 0)


def names(disk: FakeDisk) -> set[str]:
    return {entry.name for entry in disk.entries("p")}


def merged(first: int, last: int) -> bytes:
    """The batches at both ends of a merged segment."""
    return batch(b"x", base_offset=first) + batch(b"y", base_offset=last)


def test_a_name_begins_with_its_offset() -> None:
    assert base_of("00000000000000000042.log") == 42
    assert base_of("00000000000000000042.log.swap") == 42
    assert base_of("leader-epoch-checkpoint") is None
    assert base_of("42.log") is None
    assert BatchFields().base_offset == 0


def test_without_leftovers_nothing_is_done(disk: FakeDisk) -> None:
    put(disk, A + ".log", A + ".index", "leader-epoch-checkpoint")
    operations = disk.operations
    assert tidy(disk, "p", names(disk)) == []
    assert disk.operations == operations


def test_what_was_to_be_deleted_goes(disk: FakeDisk) -> None:
    put(disk, A + ".log.deleted", B + ".log")
    assert tidy(disk, "p", names(disk)) == [f"removed {A}.log.deleted, left by an interrupted run"]
    assert names(disk) == {B + ".log"}


def test_an_unfinished_cleaning_is_undone(disk: FakeDisk) -> None:
    put(disk, A + ".log", B + ".log", A + ".log.cleaned", A + ".index.cleaned")
    tidy(disk, "p", names(disk))
    assert names(disk) == {A + ".log", B + ".log"}


def test_a_cleaning_half_renamed_is_undone(disk: FakeDisk) -> None:
    put(disk, A + ".log", B + ".log", A + ".log.swap", A + ".index.cleaned", A + ".timeindex.cleaned")
    tidy(disk, "p", names(disk))
    assert names(disk) == {A + ".log", B + ".log"}


def test_a_complete_swap_takes_the_place_of_all_it_was_made_from(disk: FakeDisk) -> None:
    put(disk, A + ".log", A + ".index", B + ".log", B + ".index", C + ".log", C + ".index", A + ".snapshot")
    put(disk, A + ".log.swap", content=merged(0, 19))
    put(disk, A + ".index.swap", A + ".timeindex.swap")
    done = tidy(disk, "p", names(disk))
    assert f"put {A}.log in place, made by an interrupted run" in done
    assert names(disk) == {
        A + ".log", A + ".index", A + ".timeindex", A + ".snapshot", C + ".log", C + ".index",
    }  # fmt: skip
    assert disk.open(f"p/{A}.log").size() == len(merged(0, 19))


def test_a_swap_whose_log_has_its_name_already_is_finished(disk: FakeDisk) -> None:
    put(disk, A + ".log", content=merged(0, 19))
    put(disk, A + ".index.swap", A + ".timeindex.swap", C + ".log")
    tidy(disk, "p", names(disk))
    assert names(disk) == {A + ".log", A + ".index", A + ".timeindex", C + ".log"}


def test_an_earlier_swap_is_finished_while_a_later_cleaning_is_undone(disk: FakeDisk) -> None:
    put(disk, A + ".log", B + ".log", C + ".log")
    put(disk, A + ".log.swap", content=merged(0, 9))
    put(disk, A + ".index.swap", A + ".timeindex.swap", B + ".log.cleaned", C + ".log.swap")
    tidy(disk, "p", names(disk))
    assert names(disk) == {A + ".log", A + ".index", A + ".timeindex", B + ".log", C + ".log"}
    assert disk.open(f"p/{A}.log").size() == len(merged(0, 9))


def test_a_swap_without_batches_replaces_only_its_namesake(disk: FakeDisk) -> None:
    put(disk, A + ".log", B + ".log", content=b"old")
    put(disk, A + ".log.swap", A + ".index.swap", A + ".timeindex.swap")
    tidy(disk, "p", names(disk))
    assert disk.open(f"p/{A}.log").size() == 0
    assert disk.open(f"p/{B}.log").size() == 3
