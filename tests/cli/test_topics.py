"""``kohort topics`` against a real broker."""

import json

from tests.cli.conftest import Kohort


def test_a_topic_is_created_listed_described_altered_and_deleted(kohort: Kohort, topic: str) -> None:
    said = kohort.ok("topics", "create", topic, "-p", "3", "-c", "retention.ms=3600000")
    assert said == f"created topic {topic}: 3 partitions, replication factor 1\n"
    assert topic in kohort.ok("topics", "list")
    assert "retention.ms=3600000" in kohort.ok("topics", "describe", topic)
    said = kohort.ok("topics", "alter", topic, "-p", "4", "-c", "segment.ms=60000", "-d", "retention.ms")
    assert said.startswith(f"altered topic {topic}: 4 partitions")
    assert "segment.ms=60000" in said
    assert "retention.ms" not in said
    assert kohort.ok("topics", "delete", topic, "--yes") == f"deleted topic {topic}\n"
    assert topic not in kohort.ok("topics", "list")


def test_in_json_every_command_has_stable_keys(kohort: Kohort, topic: str) -> None:
    created = json.loads(kohort.ok("topics", "create", topic, "-p", "2", "--json"))
    assert created["topic"] == topic
    assert created.keys() == {"topic", "topic_id", "partitions", "replication_factor", "created"}
    kohort.ok("produce", topic, "a", "b", "-p", "1")
    (listed,) = [one for one in json.loads(kohort.ok("topics", "list", "--json")) if one["topic"] == topic]
    assert listed["size"] > 0
    assert {**listed, "size": 0} == {
        "topic": topic,
        "topic_id": created["topic_id"],
        "internal": False,
        "partitions": 2,
        "replication_factor": 1,
        "records": 2,
        "size": 0,
    }
    (described,) = json.loads(kohort.ok("topics", "describe", topic, "--json"))
    assert described["topic_id"] == created["topic_id"]
    second = described["partitions"][1]
    assert second["size"] > 0
    assert {**second, "size": 0, "leader_epoch": 0} == {
        "partition": 1,
        "leader": 1,
        "leader_epoch": 0,
        "replicas": [1],
        "in_sync": [1],
        "earliest": 0,
        "latest": 2,
        "size": 0,
    }
    altered = json.loads(kohort.ok("topics", "alter", topic, "-c", "segment.ms=60000", "--json"))
    assert altered["configs"]["segment.ms"] == "60000"
    deleted = json.loads(kohort.ok("topics", "delete", topic, "--json"))
    assert deleted == [{"topic": topic, "deleted": True, "error": None}]


def test_a_description_is_a_heading_and_a_row_for_each_partition(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "2")
    kohort.ok("produce", topic, "a", "-p", "0")
    lines = kohort.ok("topics", "describe", topic).splitlines()
    assert lines[0] == f"topic {topic}"
    heads = next(line for line in lines if line.startswith("PARTITION"))
    assert heads.split() == [
        "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN", "SYNC", "EARLIEST", "LATEST", "SIZE",
    ]  # fmt: skip
    assert lines[-2].split()[:7] == ["0", "1", "0", "1", "1", "0", "1"]
    assert lines[-1].split()[:7] == ["1", "1", "0", "1", "1", "0", "0"]


def test_all_configs_are_shown_when_asked_for(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    assert "cleanup.policy=delete" not in kohort.ok("topics", "describe", topic)
    assert "cleanup.policy=delete" in kohort.ok("topics", "describe", topic, "--all-configs")


def test_a_topic_that_exists_is_an_error_unless_that_is_fine(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    again = kohort("topics", "create", topic)
    assert again.exit_code == 1
    assert again.stderr.startswith(f"kohort: error: cannot create topic '{topic}'")
    assert "[TOPIC_ALREADY_EXISTS] (choose another name" in again.stderr
    assert again.stdout == ""
    assert "is there already: 1 partition" in kohort.ok("topics", "create", topic, "--if-not-exists")
    assert json.loads(kohort.ok("topics", "create", topic, "--if-not-exists", "--json"))["created"] is False


def test_what_a_broker_refuses_is_one_line_with_a_hint(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "2")
    for arguments, expected in (
        (("create", "no spaces"), "INVALID_TOPIC_EXCEPTION"),
        (("create", topic + "r", "-r", "3"), "INVALID_REPLICATION_FACTOR"),
        (("create", topic + "c", "-c", "no.such=1"), "INVALID_CONFIG"),
        (("alter", topic, "-p", "1"), "INVALID_PARTITIONS"),
        (("alter", topic, "-c", "no.such=1"), "INVALID_CONFIG"),
        (("alter", topic + "x", "-p", "3"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("describe", topic + "x"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("delete", topic + "x"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        result = kohort("topics", *arguments)
        assert result.exit_code == 1, arguments
        assert f"[{expected}]" in result.stderr or f": {expected} " in result.stderr, result.stderr
        assert result.stderr.count("\n") == 1


def test_of_several_topics_those_that_are_there_are_shown(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    described = kohort("topics", "describe", topic, topic + "-gone")
    assert described.exit_code == 1
    assert f"topic {topic}\n" in described.stdout
    assert f"'{topic}-gone'" in described.stderr
    deleted = kohort("topics", "delete", topic, topic + "-gone", "--json")
    assert deleted.exit_code == 1
    outcomes = {one["topic"]: one["error"] for one in json.loads(deleted.stdout)}
    assert outcomes == {topic: None, topic + "-gone": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_usage_errors_are_found_before_anything_is_sent() -> None:
    nowhere = Kohort("127.0.0.1:1")
    for arguments, message in (
        (("topics", "alter", "t"), "nothing to alter"),
        (("topics", "alter", "t", "-c", "novalue"), "is not NAME=VALUE"),
        (("topics", "create", "t", "-c", "novalue"), "is not NAME=VALUE"),
        (("topics", "list", "--bootstrap", "h:x"), "--bootstrap: 'h:x' is not an address"),
    ):
        result = nowhere(*arguments)
        assert result.exit_code == 2
        assert message in result.stderr


def test_when_there_is_no_broker_the_error_says_what_to_do() -> None:
    result = Kohort("127.0.0.1:1")("topics", "list")
    assert result.exit_code == 1
    assert result.stderr == (
        "kohort: error: cannot reach a broker at 127.0.0.1:1: connection refused "
        "(start one with `kohort up`, or pass --bootstrap)\n"
    )
