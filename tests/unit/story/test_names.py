"""Short names, ranges of partitions, spans of time."""

import pytest
from tests.unit.story.journal import tp

from kohort.story.names import counted, short_names, show_partitions, show_span
from kohort.story.rebalance import StoryMember

TAIL = "-0000-4000-8000-00000000"


def people(*ids: tuple[str, str, str | None]) -> dict[str, StoryMember]:
    return {one: StoryMember(one, client, "host", instance) for one, client, instance in ids}


def test_a_member_is_called_by_its_client_and_the_end_of_its_id() -> None:
    member = f"app-00000000{TAIL}a1b2"
    assert short_names(people((member, "app", None))) == {member: "app-…a1b2"}


def test_a_static_member_is_called_by_its_instance() -> None:
    member = f"i-00000000{TAIL}a1b2"
    assert short_names(people((member, "app", "i"))) == {member: "i-…a1b2"}


def test_a_member_without_a_client_id_is_called_by_what_its_id_begins_with() -> None:
    member = f"who-00000000{TAIL}a1b2"
    assert short_names(people((member, "", None))) == {member: "who-…a1b2"}


def test_names_that_would_be_the_same_are_longer() -> None:
    first, second = f"app-00000000{TAIL}a1b2", f"app-00000000{TAIL[:-1]}1a1b2"
    assert short_names(people((first, "app", None), (second, "app", None))) == {
        first: "app-…00a1b2",
        second: "app-…01a1b2",
    }


def test_ids_without_a_uuid_are_names() -> None:
    assert short_names(people(("m-1", "app", None))) == {"m-1": "m-1"}


def test_ids_that_no_end_tells_apart_are_shown_whole() -> None:
    first, second = f"x-00000000{TAIL}a1b2", f"y-00000000{TAIL}a1b2"
    assert short_names(people((first, "app", None), (second, "app", None))) == {first: first, second: second}


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.00 s"),
        (10_012, "10.0 s"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (7_380_000, "2 h 3 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_span_is_told_in_the_unit_people_would_use(span: int, text: str) -> None:
    assert show_span(span) == text


def test_partitions_are_told_in_ranges() -> None:
    found = [tp(3), tp(0), tp(1), tp(7), tp(2), tp(1, "u")]
    assert show_partitions(found) == "t 0-3, 7; u 1"


def test_one_is_not_many() -> None:
    assert (counted(1, "event"), counted(1_200, "event")) == ("1 event", "1,200 events")


def test_an_id_that_is_nothing_but_a_uuid_of_kafka_is_called_by_its_client() -> None:
    member = "lWu+dsj0Qb+v4qTckw6mWQ"  # librdkafka's, with the new protocol
    assert short_names(people((member, "till-1", None))) == {member: "till-1-…6mWQ"}
    assert short_names(people((member, "", None))) == {member: member}
