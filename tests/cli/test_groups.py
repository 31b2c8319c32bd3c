"""``kohort groups`` about a group of real consumers, on our broker and on Kafka's."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import STOP_SECONDS, Kohort
from tests.cli.group_members import members
from tests.clients.waiting import eventually

COLUMNS = [
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
]


def state(kohort: Kohort, group: str) -> tuple[str, int]:
    result = kohort("groups", "state", group, "--json")
    if result.exit_code:
        return "", 0
    found = json.loads(result.stdout)
    return found["state"], found["members"]


def has_partitions(kohort: Kohort, group: str) -> bool:
    (member,) = json.loads(kohort.ok("groups", "members", group, "--json"))["members"]
    return bool(member["assignment"]) and member["state"] == "stable"


def described(kohort: Kohort, group: str) -> dict[str, Any]:
    (found,) = json.loads(kohort.ok("groups", "describe", group, "--json"))
    assert isinstance(found, dict)
    return found


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


@pytest.fixture
def filled(kohort: Kohort, topic: str) -> str:
    """A topic of three partitions with two, three and no records."""
    kohort.ok("topics", "create", topic, "-p", "3")
    kohort.ok("produce", topic, "a", "b", "-p", "0")
    kohort.ok("produce", topic, "c", "d", "e", "-p", "1")
    return topic


@pytest.mark.slow
def test_a_group_is_seen_from_all_sides_while_it_lives(kohort: Kohort, group: str, filled: str) -> None:
    names = ("one", "two", "three", "four")  # one more than there are partitions
    with members(kohort.bootstrap, group, filled, *names):
        eventually("four members", lambda: state(kohort, group) == ("Stable", 4))
        eventually(
            "commits", lambda: sum(one["lag"] == 0 for one in described(kohort, group)["partitions"]) >= 2
        )

        lines = [line.split() for line in kohort.ok("groups", "describe", group).splitlines()]
        assert lines[0] == COLUMNS
        rows = [dict(zip(COLUMNS, line, strict=True)) for line in lines[1:]]
        assert [(row["TOPIC"], row["PARTITION"]) for row in rows] == [
            *((filled, str(number)) for number in range(3)),
            ("-", "-"),
        ]
        assert [row["CURRENT-OFFSET"] for row in rows[:2]] == ["2", "3"]
        assert [row["LOG-END-OFFSET"] for row in rows] == ["2", "3", "0", "-"]
        assert [row["LAG"] for row in rows[:2]] == ["0", "0"]
        assert {row["CLIENT-ID"] for row in rows} == set(names)
        assert {row["HOST"] for row in rows} == {"127.0.0.1"}
        assert all(row["CONSUMER-ID"].startswith(row["CLIENT-ID"]) for row in rows)

        (listed,) = [
            one for one in json.loads(kohort.ok("groups", "list", "--json")) if one["group"] == group
        ]
        assert listed == {
            "group": group,
            "state": "Stable",
            "protocol_type": "consumer",
            "type": "classic",
            "members": 4,
            "lag": 0,
        }
        every = json.loads(kohort.ok("groups", "describe", "--all-groups", "--json"))
        assert [len(one["partitions"]) for one in every if one["group"] == group] == [3]
        assert group in kohort.ok("groups", "list", "--state", "stable")
        assert group not in kohort.ok("groups", "list", "--state", "Empty")
        slip = kohort("groups", "list", "--state", "stabel")
        assert slip.exit_code == 2
        assert "'stabel' is not one of" in slip.stderr

        table = kohort.ok("groups", "members", group, "--verbose").splitlines()
        assert table[0].split() == [
            "CONSUMER-ID",
            "INSTANCE",
            "HOST",
            "CLIENT-ID",
            "#PARTITIONS",
            "ASSIGNMENT",
        ]
        assert sorted(line.split(maxsplit=4)[4].split(maxsplit=1)[0] for line in table[1:]) == [
            "0",
            "1",
            "1",
            "1",
        ]
        assert any(line.endswith(f"{filled} 0") for line in table)

        found = json.loads(kohort.ok("groups", "state", group, "--json"))
        address = f"{found['coordinator']['host']}:{found['coordinator']['port']}"
        assert (found["assignor"], address) == ("range", kohort.bootstrap)
        assert "range" in kohort.ok("groups", "state", group)

        committed = json.loads(kohort.ok("groups", "offsets", group, "--json"))["offsets"]
        assert [(one["partition"], one["current_offset"], one["lag"]) for one in committed[:2]] == [
            (0, 2, 0),
            (1, 3, 0),
        ]

        refused = kohort("groups", "delete", group)
        assert refused.exit_code == 1
        assert f"cannot delete a group that is in use: group '{group}' has 4 members: " in refused.stderr
        refused = kohort("groups", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
        assert refused.exit_code == 1
        assert "cannot reset offsets: group" in refused.stderr
        assert "stop its members first" in refused.stderr
        refused = kohort("groups", "delete-offsets", group, "--topic", filled, "--json")
        assert refused.exit_code == 1
        assert {one["error"] for one in json.loads(refused.stdout)} == {"GROUP_SUBSCRIBED_TO_TOPIC"}

    result = kohort("groups", "describe", group)
    assert result.exit_code == 0
    assert result.stderr == f"group {group} has no active members\n"
    assert described(kohort, group)["partitions"][0]["current_offset"] == 2
    assert kohort.ok("groups", "members", group) == f"group {group} has no members\n"


@pytest.mark.slow
def test_a_static_member_shows_its_instance(kohort: Kohort, group: str, filled: str) -> None:
    settings = {"group.instance.id": "till-7", "session.timeout.ms": 30_000}
    with members(kohort.bootstrap, group, filled, "one", **settings):
        eventually("a member", lambda: state(kohort, group) == ("Stable", 1))
        (member,) = json.loads(kohort.ok("groups", "members", group, "--json"))["members"]
        assert (member["instance_id"], member["client_id"]) == ("till-7", "one")
        assert len(member["assignment"]) == 3


def test_offsets_and_groups_are_deleted(kohort: Kohort, group: str, filled: str) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
    said = kohort.ok("groups", "delete-offsets", group, "--topic", f"{filled}:0")
    assert said == f"deleted the offset of {group} for {filled}-0: it was 2\n"
    deleted = json.loads(kohort.ok("groups", "delete-offsets", group, "--topic", filled, "--json"))
    assert deleted == [
        {"topic": filled, "partition": 1, "offset": 3, "deleted": True, "error": None},
        {"topic": filled, "partition": 2, "offset": 0, "deleted": True, "error": None},
    ]
    missing = kohort("groups", "delete-offsets", group, "--topic", "nothing-here")
    assert missing.exit_code == 1


def test_a_deleted_group_is_gone(kohort: Kohort, group: str, filled: str) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
    assert kohort.ok("groups", "delete", group) == f"deleted group {group}\n"
    again = kohort("groups", "delete", group, "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout) == [{"group": group, "deleted": False, "error": "GROUP_ID_NOT_FOUND"}]
    assert f"there is no group '{group}'" in again.stderr


@pytest.mark.parametrize("command", ["describe", "members", "offsets", "state"])
def test_an_unknown_group_is_an_error_that_names_others(
    kohort: Kohort, group: str, filled: str, command: str
) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
    missed = kohort("groups", command, group[:-1])
    assert missed.exit_code == 1
    assert f"there is no group '{group[:-1]}' (did you mean " in missed.stderr
    assert f"'{group}'" in missed.stderr


def test_of_several_groups_those_that_are_there_are_shown(kohort: Kohort, group: str, filled: str) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
    result = kohort("groups", "describe", group, "no-such-group", group)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 4
    assert "there is no group 'no-such-group'" in result.stderr


def test_offsets_of_a_topic_that_is_gone_have_no_lag(kohort: Kohort, group: str, filled: str) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", f"{filled}:1", "--to-latest", "--execute")
    before = json.loads(kohort.ok("groups", "offsets", group, "--json"))["offsets"]
    assert before[0]["lag"] == 0
    kohort.ok("topics", "delete", filled, "--yes")
    result = kohort(
        "groups", "offsets", group, "--json"
    )  # a broker may forget the offsets, or the group, too
    if result.exit_code == 0:
        assert {one["lag"] for one in json.loads(result.stdout)["offsets"]} <= {None}
    else:
        assert "there is no group" in result.stderr


@pytest.mark.slow
def test_watching_goes_on_until_it_is_interrupted(kohort: Kohort, group: str, filled: str) -> None:
    kohort.ok("groups", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
    command = kohort.process("groups", "state", group, "--json", "--watch", "0.1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["state"] for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=STOP_SECONDS)
    assert seen == ["Empty"] * 3
    assert process.returncode == 130


ON_KAFKA = pytest.mark.parametrize("broker", ["kafka"], indirect=True)


@pytest.mark.interop
@ON_KAFKA
def test_kafka_has_no_journal_and_we_say_so(kohort: Kohort, group: str) -> None:
    result = kohort("groups", "why", group)
    assert result.exit_code == 1
    assert "Apache Kafka has none" in result.stderr
    assert f"in the log of its coordinator, broker 1 at {kohort.bootstrap}" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "broker", ["kohort", pytest.param("kafka", marks=pytest.mark.interop)], indirect=True
)
def test_a_consumer_group_shows_its_epochs(kohort: Kohort, group: str, filled: str) -> None:
    with members(kohort.bootstrap, group, filled, "one", **{"group.protocol": "consumer"}):
        eventually("a member", lambda: state(kohort, group) == ("Stable", 1))
        # Kafka's coordinator may hear of a new topic after the member's first heartbeat.
        eventually("partitions", lambda: has_partitions(kohort, group))
        found = json.loads(kohort.ok("groups", "members", group, "--json"))
        assert found["members"][0]["epoch"] > 0
        assert found["members"][0]["target"] == found["members"][0]["assignment"]
        assert (found["members"][0]["protocol"], found["members"][0]["state"]) == ("consumer", "stable")
        heading, row = kohort.ok("groups", "state", group).splitlines()
        assert heading.split()[-2:] == ["EPOCH", "TARGET-EPOCH"]
        epoch, target_epoch = row.split()[-2:]
        assert epoch == target_epoch == str(found["members"][0]["epoch"])
        (listed,) = [
            one for one in json.loads(kohort.ok("groups", "list", "--json")) if one["group"] == group
        ]
        assert (listed["type"], listed["members"]) == ("consumer", 1)
        assert len(kohort.ok("groups", "describe", group).splitlines()) == 4


@pytest.mark.slow
def test_all_groups_are_described_in_one_table(kohort: Kohort, group: str, filled: str) -> None:
    others = [f"{group}-1", f"{group}-2"]
    for number, name in enumerate(others):
        kohort.ok("groups", "reset-offsets", name, "--topic", filled, "--to-offset", str(number), "--execute")
    lines = [line.split() for line in kohort.ok("groups", "describe", "--all-groups").splitlines()]
    rows = [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]
    found = {
        (row["GROUP"], row["PARTITION"]): row["CURRENT-OFFSET"] for row in rows if row["GROUP"] in others
    }
    assert found == {
        **{(others[0], str(partition)): "0" for partition in range(3)},
        **{(others[1], str(partition)): str(min(1, end)) for partition, end in enumerate((2, 3, 0))},
    }


@pytest.mark.parametrize("arguments", [(), ("a", "--all-groups")])
def test_groups_are_chosen_by_id_or_all_of_them(kohort: Kohort, arguments: tuple[str, ...]) -> None:
    refused = kohort("groups", "describe", *arguments)
    assert refused.exit_code == 2
    assert "choose groups by their ids, or all of them with --all-groups" in refused.output


def test_a_file_with_settings_is_taken(kohort: Kohort, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\nrequest.timeout.ms=5000\n")
    assert kohort.ok("groups", "list", "--command-config", str(file))
