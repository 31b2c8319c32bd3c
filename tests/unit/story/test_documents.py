"""Documents of the journal, read back."""

import json
from base64 import b64encode

import pytest
from tests.unit.story.journal import assignment, owning, tp

from kohort.story.documents import Document, assigned_partitions, owned_partitions, read_document

VALUE = {
    "schema": 1,
    "at": 5,
    "group": "g",
    "event": "GroupDied",
    "details": {"at": 5},
    "cause": {"kind": "K"},
}


def encoded(blob: bytes) -> str:
    return b64encode(blob).decode()


def test_a_document_is_read_with_its_cause() -> None:
    assert read_document(json.dumps(VALUE).encode()) == Document(5, "GroupDied", {"at": 5}, {"kind": "K"})


def test_a_gap_has_no_cause() -> None:
    value = {"schema": 1, "at": 5, "event": "JournalGap", "details": {"dropped": 3}}
    assert read_document(json.dumps(value).encode()) == Document(5, "JournalGap", {"dropped": 3}, {})


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[1]",
        b"{}",
        json.dumps({**VALUE, "schema": 2}).encode(),
        json.dumps({**VALUE, "at": "noon"}).encode(),
    ],
)
def test_what_is_no_document_of_this_schema_is_not_read(value: bytes | None) -> None:
    assert read_document(value) is None


def test_an_assignment_is_a_set_of_partitions() -> None:
    assert assigned_partitions(encoded(assignment(2, 0))) == {tp(0), tp(2)}


def test_a_newer_assignment_than_ours_is_read_as_the_newest_we_know() -> None:
    assert assigned_partitions(encoded(b"\x00\x09" + assignment(1)[2:])) == {tp(1)}


@pytest.mark.parametrize("text", ["", encoded(b"\0"), encoded(b"\0\0junk"), "A"])
def test_what_is_no_assignment_has_no_partitions(text: str) -> None:
    assert assigned_partitions(text) == frozenset()


def test_a_subscription_says_which_partitions_its_member_kept() -> None:
    assert owned_partitions(encoded(owning(3, 1))) == {tp(1), tp(3)}
    assert owned_partitions(encoded(owning())) == frozenset()
    assert owned_partitions(encoded(b"\0")) == frozenset()
