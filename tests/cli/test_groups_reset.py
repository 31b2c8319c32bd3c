"""``kohort groups reset-offsets`` on our broker and on Kafka's."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Kohort


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


@pytest.fixture
def filled(kohort: Kohort, topic: str) -> str:
    """A topic of two partitions: offsets 0 to 9, with times 1000, 2000 …, and none."""
    kohort.ok("topics", "create", topic, "-p", "2")
    records = [json.dumps({"value": str(number), "timestamp": 1_000 * number}) for number in range(1, 11)]
    kohort.ok("produce", topic, "-p", "0", "-f", "json", *records)
    return topic


def reset(kohort: Kohort, group: str, *options: str) -> dict[str, Any]:
    found = json.loads(kohort.ok("groups", "reset-offsets", group, *options, "--json"))
    assert isinstance(found, dict)
    return found


def new_offsets(kohort: Kohort, group: str, *options: str) -> list[int]:
    return [one["new_offset"] for one in reset(kohort, group, *options)["offsets"]]


def committed(kohort: Kohort, group: str) -> list[int]:
    found = json.loads(kohort.ok("groups", "offsets", group, "--json"))
    return [one["current_offset"] for one in found["offsets"]]


def test_without_execute_nothing_happens(kohort: Kohort, group: str, filled: str) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-offset", "5", "--execute")
    result = kohort("groups", "reset-offsets", group, "--topic", filled, "--to-earliest")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "NOTE"],
        [group, filled, "0", "5", "0"],
        [group, filled, "1", "0", "0"],
    ]
    assert "this was a dry run" in result.stderr
    assert committed(kohort, group) == [5, 0]


def test_with_execute_it_is_done(kohort: Kohort, group: str, filled: str) -> None:
    result = kohort("groups", "reset-offsets", group, "-t", f"{filled}:0", "--to-offset", "5", "--execute")
    assert result.exit_code == 0
    assert f"set 1 offset of group {group}" in result.stderr
    assert "--execute makes it" in result.stderr  # the group did not exist
    assert committed(kohort, group) == [5]


def test_every_wish_leads_where_it_says(kohort: Kohort, group: str, filled: str) -> None:
    everything = ("--topic", filled)
    kohort.ok("groups", "reset-offsets", group, "-t", f"{filled}:0", "--to-offset", "5", "--execute")
    assert new_offsets(kohort, group, *everything, "--to-earliest") == [0, 0]
    assert new_offsets(kohort, group, *everything, "--to-latest") == [10, 0]
    assert new_offsets(kohort, group, *everything, "--to-current") == [5, 0]
    assert new_offsets(kohort, group, *everything, "--to-datetime", "1970-01-01T00:00:03.500Z") == [3, 0]
    assert new_offsets(kohort, group, *everything, "--to-datetime", "1969-12-31T23:59:59.999Z") == [0, 0]
    assert new_offsets(kohort, group, *everything, "--by-duration", "PT1H") == [10, 0]
    assert new_offsets(kohort, group, *everything, "--by-duration", "P100000D") == [0, 0]
    assert new_offsets(kohort, group, "--all-topics", "--shift-by", "-2") == [3]


def test_what_is_outside_the_log_is_set_to_its_ends(kohort: Kohort, group: str, filled: str) -> None:
    found = reset(kohort, group, "--topic", filled, "--to-offset", "1000")
    assert found == {
        "group": group,
        "executed": False,
        "offsets": [
            {
                "topic": filled,
                "partition": number,
                "current_offset": None,
                "new_offset": end,
                "note": "1000 is beyond the log: set to its end",
                "error": None,
            }
            for number, end in ((0, 10), (1, 0))
        ],
    }


def test_what_is_exported_can_be_set_elsewhere(
    kohort: Kohort, group: str, filled: str, tmp_path: Path
) -> None:
    exported = kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-offset", "7", "--export")
    assert exported == f"{filled},0,7\n{filled},1,0\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    found = reset(kohort, group, "--from-file", str(file), "--execute")
    assert found["executed"]
    assert committed(kohort, group) == [7, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "choose exactly one target"),
        (("--to-latest", "--to-earliest"), "not --to-earliest and --to-latest"),
        (("--to-latest",), "choose what to reset"),
        (("--to-latest", "--all-topics", "-t", "x"), "choose what to reset"),
        (("--to-datetime", "noon", "--all-topics"), "--to-datetime: cannot understand 'noon'"),
        (("--by-duration", "1h", "--all-topics"), "--by-duration: cannot understand '1h'"),
        (("--from-file", "not-there.csv"), "cannot read not-there.csv: No such file or directory ("),
        (("--to-latest", "-t", "a:b"), "is not a list of partitions"),
        (("--to-latest", "--all-topics", "--export", "--json"), "exclude each other"),
        (("--to-latest", "--all-topics", "--export", "--execute"), "exclude each other"),
    ],
)
def test_orders_that_cannot_be_understood_are_refused(
    kohort: Kohort, options: tuple[str, ...], words: str
) -> None:
    result = kohort("groups", "reset-offsets", "g", *options)
    assert result.exit_code == 2
    assert words in result.stderr


def test_orders_that_cannot_be_fulfilled_say_why(kohort: Kohort, group: str, filled: str) -> None:
    nothing = kohort("groups", "reset-offsets", group, "--all-topics", "--to-latest")
    assert (nothing.exit_code, "has committed nothing (name what to reset" in nothing.stderr) == (1, True)
    partition = kohort("groups", "reset-offsets", group, "-t", f"{filled}:7", "--to-latest")
    assert (partition.exit_code, "has no partition 7 (it has the" in partition.stderr) == (1, True)
    topic = kohort("groups", "reset-offsets", group, "-t", "not-there", "--to-latest")
    assert (topic.exit_code, "there is no topic of this name" in topic.stderr) == (1, True)
    shift = kohort("groups", "reset-offsets", group, "-t", filled, "--shift-by", "1")
    assert (shift.exit_code, "nothing is committed for it" in shift.stderr) == (1, True)


def test_a_file_without_our_group_is_refused(kohort: Kohort, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("other,t,0,5\n")
    result = kohort("groups", "reset-offsets", "g", "--from-file", str(file))
    assert result.exit_code == 2
    assert "has no offsets for group 'g'" in result.stderr
