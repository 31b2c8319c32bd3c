"""Kafka's own command line tools must work against Kohort as they do against Kafka."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interop.scripts.consumers import ConsumerMember
from tests.interop.scripts.exchange import Exchange
from tests.interop.scripts.setting import ready_group, settle, wait_for_leader
from tests.interop.targets import Target, also_on_nodes
from tools.peers.kafka_tools import Tool, ToolShell

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FreshName = Callable[[str], str]


class Desk:
    """The tools, pointed at one broker."""

    def __init__(self, shell: ToolShell, target: Target) -> None:
        self._shell = shell
        self._at = ("--bootstrap-server", target.bootstrap)
        self.target = target

    def lines(self, tool: Tool, *args: str, stdin: str = "") -> list[str]:
        return self._shell.check(tool, *self._at, *args, stdin=stdin).lines()

    def output(self, tool: Tool, *args: str) -> str:
        """What a tool printed, however it ended: a consumer that ran out of records exits with 1."""
        return self._shell.run(tool, *self._at, *args).stdout

    def fails(self, tool: Tool, *args: str) -> str:
        done = self._shell.run(tool, *self._at, *args)
        assert done.exit != 0, done.stdout
        return done.stdout + done.stderr

    def table(self, tool: Tool, *args: str) -> list[dict[str, str]]:
        """Output that is a heading and rows, by column name."""
        heading, *rows = [line.split() for line in self.lines(tool, *args)]
        return [dict(zip(heading, row, strict=False)) for row in rows]

    def topic(self, name: str, *args: str) -> str:
        """A new topic that is ready for use."""
        self.lines(Tool.TOPICS, "--create", "--topic", name, *args)
        x = Exchange(self.target.address)
        try:
            wait_for_leader(x, name)
        finally:
            x.close()
        return name

    def own_configs(self, name: str) -> list[str]:
        """What is set on a topic, as name=value."""
        entity = ("--entity-type", "topics", "--entity-name", name)
        return sorted(line.split()[0] for line in self.lines(Tool.CONFIGS, "--describe", *entity)[1:])

    def produce(self, topic: str, *pairs: str) -> None:
        options = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        self.lines(Tool.CONSOLE_PRODUCER, "--topic", topic, *options, stdin="\n".join(pairs) + "\n")

    def consume(self, topic: str, count: int, *args: str) -> list[str]:
        ends = ("--max-messages", str(count), "--timeout-ms", "15000")
        return self.lines(Tool.CONSOLE_CONSUMER, "--topic", topic, *ends, *args)


@pytest.fixture
def desk(kafka_tools: ToolShell, target: Target) -> Desk:
    return Desk(kafka_tools, target)


@also_on_nodes
def test_topics_are_created_listed_described_altered_and_deleted(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "3", "--config", "retention.ms=60000")
    assert name in desk.lines(Tool.TOPICS, "--list")
    heading, *rows = desk.lines(Tool.TOPICS, "--describe", "--topic", name)
    fields = dict(part.strip().split(": ", 1) for part in heading.split("\t"))
    assert (fields["PartitionCount"], fields["ReplicationFactor"]) == ("3", "1")
    assert "retention.ms=60000" in fields["Configs"]
    assert [row.split("\t")[2] for row in rows] == ["Partition: 0", "Partition: 1", "Partition: 2"]
    desk.lines(Tool.TOPICS, "--alter", "--topic", name, "--partitions", "5")
    settle("growth", lambda: len(desk.lines(Tool.TOPICS, "--describe", "--topic", name)) == 6)
    desk.lines(Tool.TOPICS, "--delete", "--topic", name)
    settle("deletion", lambda: name not in desk.lines(Tool.TOPICS, "--list"))


def test_a_wrong_topic_command_is_refused_with_kafkas_words(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"))
    assert "already exists" in desk.fails(Tool.TOPICS, "--create", "--topic", name)
    assert "does not exist" in desk.fails(Tool.TOPICS, "--describe", "--topic", "no-such-topic")
    assert "Unable to replicate the partition 3 time(s)" in desk.fails(
        Tool.TOPICS, "--create", "--topic", fresh_name("tools"), "--replication-factor", "3"
    )


def test_topic_configs_are_described_and_altered(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"))
    entity = ("--entity-type", "topics", "--entity-name", name)
    desk.lines(Tool.CONFIGS, "--alter", *entity, "--add-config", "retention.ms=12345,max.message.bytes=2000")
    settle("two", lambda: desk.own_configs(name) == ["max.message.bytes=2000", "retention.ms=12345"])
    desk.lines(Tool.CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    settle("one", lambda: desk.own_configs(name) == ["max.message.bytes=2000"])
    _, *everything = desk.lines(Tool.CONFIGS, "--describe", *entity, "--all")
    values = dict(line.split()[0].split("=", 1) for line in everything)
    assert values["retention.ms"] == "604800000"
    assert values["max.message.bytes"] == "2000"
    assert values["cleanup.policy"] == "delete"


def test_an_unknown_config_is_refused(desk: Desk, fresh_name: FreshName) -> None:
    entity = ("--entity-type", "topics", "--entity-name", desk.topic(fresh_name("tools")))
    said = desk.fails(Tool.CONFIGS, "--alter", *entity, "--add-config", "no.such.config=1")
    assert "Unknown topic config name: no.such.config" in said


def test_what_the_console_producer_sends_the_console_consumer_prints(
    desk: Desk, fresh_name: FreshName
) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "1")
    desk.produce(name, "a:1", "b:2", "c:3")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    printed = desk.consume(name, 3, "--partition", "0", "--offset", "earliest", *shown)
    assert printed == ["Offset:0\ta\t1", "Offset:1\tb\t2", "Offset:2\tc\t3"]


@also_on_nodes
def test_get_offsets_tells_the_ends_of_a_log(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "2")
    desk.produce(name, "a:1", "b:2", "c:3")
    latest = desk.lines(Tool.GET_OFFSETS, "--topic", name)
    assert sum(int(line.rsplit(":", 1)[1]) for line in latest) == 3
    assert desk.lines(Tool.GET_OFFSETS, "--topic", name, "--time", "earliest") == [
        f"{name}:0:0",
        f"{name}:1:0",
    ]


@also_on_nodes
def test_a_group_is_listed_described_reset_and_deleted(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "1")
    group = ("--group", name)
    desk.produce(name, "a:1", "b:2", "c:3")
    assert desk.consume(name, 3, *group, "--from-beginning") == ["1", "2", "3"]
    states = {row["GROUP"]: row["STATE"] for row in desk.table(Tool.CONSUMER_GROUPS, "--list", "--state")}
    assert states[name] == "Empty"
    (row,) = desk.table(Tool.CONSUMER_GROUPS, "--describe", *group)
    assert (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == ("3", "3", "0")
    reset = ("--reset-offsets", *group, "--topic", name, "--shift-by", "-2", "--execute")
    (moved,) = desk.table(Tool.CONSUMER_GROUPS, *reset)
    assert moved["NEW-OFFSET"] == "1"
    assert desk.consume(name, 2, *group) == ["2", "3"]
    desk.lines(Tool.CONSUMER_GROUPS, "--delete-offsets", *group, "--topic", name)
    desk.lines(Tool.CONSUMER_GROUPS, "--delete", *group)
    assert name not in desk.lines(Tool.CONSUMER_GROUPS, "--list")


def test_a_consumer_group_is_described_with_its_members_and_configured(
    desk: Desk, fresh_name: FreshName
) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "2")
    x = Exchange(desk.target.address)
    try:
        ready_group(x, name)
        ConsumerMember(x, name, "one").join(name)
    finally:
        x.close()
    group = ("--group", name)
    listed = {row["GROUP"]: row for row in desk.table(Tool.CONSUMER_GROUPS, "--list", "--state", "--type")}
    assert (listed[name]["TYPE"], listed[name]["STATE"]) == ("Consumer", "Stable")
    (row,) = desk.table(Tool.CONSUMER_GROUPS, "--describe", "--members", "--verbose", *group)
    assert row["CONSUMER-ID"] == "one"
    (state,) = desk.lines(Tool.CONSUMER_GROUPS, "--describe", "--state", "--verbose", *group)[1:]
    assert "uniform" in state
    assert "Stable" in state
    entity = ("--entity-type", "groups", "--entity-name", name)
    desk.lines(Tool.CONFIGS, "--alter", *entity, "--add-config", "consumer.heartbeat.interval.ms=6000")
    shown = desk.lines(Tool.CONFIGS, "--describe", *entity)
    assert any("consumer.heartbeat.interval.ms=6000" in line for line in shown)


def test_records_are_deleted_up_to_an_offset(desk: Desk, fresh_name: FreshName, tmp_path: Path) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "1")
    desk.produce(name, "a:1", "b:2", "c:3")
    request = tmp_path / "delete.json"
    request.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 2}]})
    )
    said = desk.lines(Tool.DELETE_RECORDS, "--offset-json-file", str(request))
    assert any("low_watermark: 2" in line for line in said)
    assert desk.lines(Tool.GET_OFFSETS, "--topic", name, "--time", "earliest") == [f"{name}:0:2"]


def test_the_broker_describes_itself(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "1")
    desk.produce(name, "a:1")
    usable = desk.lines(Tool.BROKER_API_VERSIONS)
    assert usable[0].startswith(f"{desk.target.bootstrap} (id: ")
    assert any(line.strip().startswith("JoinGroup(11): 0 to 9 [usable: 9]") for line in usable)
    (listing,) = [
        json.loads(line)
        for line in desk.lines(Tool.LOG_DIRS, "--describe", "--topic-list", name)
        if line.startswith("{")
    ]
    (directory,) = listing["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert [part["partition"] for part in directory["partitions"]] == [f"{name}-0"]


def test_the_feature_of_consumer_groups_is_described(desk: Desk) -> None:
    (shown,) = [line for line in desk.lines(Tool.FEATURES, "describe") if "group.version" in line]
    assert shown.split("\t")[:-1] == [
        "Feature: group.version",
        "SupportedMinVersion: 0",
        "SupportedMaxVersion: 1",
        "FinalizedVersionLevel: 1",
    ]


def test_the_feature_of_consumer_groups_is_switched_off_and_on(desk: Desk) -> None:
    changed = "group.version was {}graded to {}."
    try:
        lowered = desk.lines(Tool.FEATURES, "downgrade", "--feature", "group.version=0")
        assert lowered == [changed.format("down", 0)]
        (shown,) = [line for line in desk.lines(Tool.FEATURES, "describe") if "group.version" in line]
        assert "FinalizedVersionLevel: 0" in shown
    finally:
        raised = desk.lines(Tool.FEATURES, "upgrade", "--feature", "group.version=1")
    assert raised == [changed.format("up", 1)]


def test_the_cluster_tool_prints_the_cluster_id(kafka_tools: ToolShell, target: Target) -> None:
    (line,) = kafka_tools.check(Tool.CLUSTER, "cluster-id", "--bootstrap-server", target.bootstrap).lines()
    assert len(line.removeprefix("Cluster ID: ")) == 22


def documents(text: str) -> list[dict[str, Any]]:
    """JSON objects that follow each other without a separator, as Kafka's formatters print them."""
    decoder = json.JSONDecoder()
    found, position = [], text.find("{")
    while position >= 0:
        value, end = decoder.raw_decode(text, position)
        found.append(value)
        position = text.find("{", end)
    return found


def test_the_offsets_topic_is_readable_as_any_other(desk: Desk, fresh_name: FreshName) -> None:
    name = desk.topic(fresh_name("tools"), "--partitions", "1")
    desk.produce(name, "a:1")
    desk.consume(name, 1, "--group", name, "--from-beginning")
    formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    options = ("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "3000")
    printed = desk.output(Tool.CONSOLE_CONSUMER, *options, "--formatter", formatter)
    mine = [record for record in documents(printed) if record["key"]["data"]["group"] == name]
    assert mine[-1]["key"]["data"] == {"group": name, "topic": name, "partition": 0}
    assert mine[-1]["value"]["data"]["offset"] == 1
