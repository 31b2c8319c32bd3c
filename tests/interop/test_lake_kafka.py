"""What a real Kafka writes to ``__consumer_offsets`` is the same in our columns as in Kafka's tools."""

import asyncio
import json
import re
from collections import defaultdict
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.clients.libraries import quietly
from tests.interop.conftest import need
from tests.interop.targets import SETTINGS
from tests.interop.test_shell_tools import documents
from tools.peers.kafka_broker import kafka_broker
from tools.peers.kafka_tools import Tool, ToolShell
from tools.peers.pins import Peer

from kohort import Admin
from kohort.client.admin.results import NewTopic
from kohort.lake.snapshots import subscribed_topics
from kohort.lake.source import SegmentReader

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

aiokafka, kafka = quietly("aiokafka"), quietly("kafka")
TOPIC, RECORDS = "orders", 20
GROUP_METADATA = 2  # the last record type whose key says `group`; later ones say `groupId`
PRINTED = re.compile(r"\| offset: (\d+) .*? key: (\{.*\}) payload: (.*)$")
Row = dict[str, Any]
Document = dict[str, Any]


def librdkafka(bootstrap: str, group: str, **settings: object) -> Consumer:
    """A member that has read everything and committed it."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    consumer.subscribe([TOPIC])
    seen = 0
    while seen < RECORDS:
        message = consumer.poll(60)
        assert message is not None, f"{group}: nothing in time"
        assert message.error() is None, message.error()
        seen += 1
    consumer.commit(asynchronous=False)
    return consumer


def with_kafka_python(bootstrap: str) -> None:
    with closing(
        kafka.KafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap, group_id="kafka-python", auto_offset_reset="earliest"
        )
    ) as consumer:
        for _, _ in zip(range(RECORDS), consumer, strict=False):
            pass
        consumer.commit()


def with_aiokafka(bootstrap: str) -> None:
    async def read() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap, group_id="aiokafka", auto_offset_reset="earliest"
        )
        await consumer.start()
        for _ in range(RECORDS):
            await consumer.getone()
        await consumer.commit()
        await consumer.stop()

    asyncio.run(read())


def in_transactions(bootstrap: str) -> None:
    """Offsets of one transaction that is committed, and of one that is aborted."""
    with closing(librdkafka(bootstrap, "transactions")) as consumer:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "transactions"})
        producer.init_transactions(60)
        for end, offset in ((producer.commit_transaction, 5), (producer.abort_transaction, 6)):
            producer.begin_transaction()
            where = [TopicPartition(TOPIC, 0, offset, "in a transaction")]
            producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), 60)
            end(60)


def live(bootstrap: str, tools: ToolShell) -> None:
    """Groups of several clients and kinds, and what their administrators do to them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with Admin(bootstrap) as ours:
        ours.create_topic(NewTopic(name=TOPIC, partitions=2))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number), partition=number % 2)
    producer.flush(60)
    java = ("--topic", TOPIC, "--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "60000")
    for protocol in ("classic", "consumer"):
        settings = ("--command-property", f"group.protocol={protocol}")
        where = ("--bootstrap-server", bootstrap, "--group", f"java-{protocol}")
        tools.check(Tool.CONSOLE_CONSUMER, *where, *java, *settings)
    with_kafka_python(bootstrap)
    with_aiokafka(bootstrap)
    for protocol in ("classic", "consumer"):
        for instance in (None, "one"):
            static = {} if instance is None else {"group_instance_id": instance}
            name = f"librdkafka-{protocol}-{'static' if instance else 'dynamic'}"
            librdkafka(bootstrap, name, group_protocol=protocol, **static).close()
    in_transactions(bootstrap)
    gone = ConsumerGroupTopicPartitions("java-classic", [TopicPartition(TOPIC, 0, 3)])
    admin.alter_consumer_group_offsets([gone])["java-classic"].result(60)
    for group in ("java-classic", "java-consumer"):
        admin.delete_consumer_groups([group])[group].result(60)


class Written(NamedTuple):
    """The data directory of a Kafka that has stopped, and what Kafka's formatters printed before that."""

    data: Path
    formatted: list[dict[str, Any]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, kafka_tools: ToolShell) -> Written:
    need(Peer.KAFKA)
    with kafka_broker(SETTINGS, tmp_path_factory.mktemp("lake-kafka")) as broker:
        live(broker.bootstrap, kafka_tools)
        reading = ("--bootstrap-server", broker.bootstrap, "--topic", "__consumer_offsets")
        how = ("--from-beginning", "--timeout-ms", "5000", "--formatter")
        formatted = [
            each
            for name in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter")
            for each in documents(
                kafka_tools.run(
                    Tool.CONSOLE_CONSUMER, *reading, *how, f"org.apache.kafka.tools.consumer.{name}"
                ).stdout
            )
        ]
    return Written(broker.data, formatted)


def rows(data: Path) -> dict[tuple[int, int], Row]:
    """What ``kohort_offsets`` makes of the files in a task, by partition and offset."""
    reader = SegmentReader(data)
    found = [
        row for share in reader.partitions() for batch in reader.read(share) for row in batch.to_pylist()
    ]
    return {(row["src_partition"], row["src_offset"]): row for row in found}


def key_of(row: Row) -> Document:
    """The key as Kafka prints it."""
    names = ("groupId", "memberId") if row["record_type"] > GROUP_METADATA else ("group", "memberId")
    of_row = zip((*names, "topic", "partition"), ("group_id", "member_id", "topic", "partition"), strict=True)
    data = {name: row[column] for name, column in of_row if row[column] is not None}
    return {"type": row["record_type"], "data": data}


def value_of(row: Row) -> Document | None:
    """The value as Kafka prints it, with the fields that Kafka leaves out because they have their default."""
    if row["tombstone"]:
        return None
    if row["kind"] != "offset_commit":
        return {"version": row["version"], "data": json.loads(row["details"])}
    data = {
        "offset": row["committed"],
        "leaderEpoch": row["leader_epoch"],
        "metadata": row["metadata"],
        "commitTimestamp": milliseconds(row["commit_ts"]),
    }
    return {
        "version": row["version"],
        "data": data | ({"topicId": row["topic_id"]} if row["topic_id"] else {}),
    }


def milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1_000)


def with_numbers(text: str) -> Document:
    """Kafka's dump tool prints type and version as text, its formatters as numbers."""
    document = json.loads(text)
    return {name: int(value) if isinstance(value, str) else value for name, value in document.items()}


def is_same(ours: object, kafka: object) -> bool:
    """Equal but for fields that Kafka leaves out, which then have their default."""
    match ours, kafka:
        case dict(), dict():
            assert isinstance(ours, dict)
            assert isinstance(kafka, dict)
            left_out = ours.keys() - kafka.keys()
            return kafka.keys() <= ours.keys() and all(
                not ours[name] if name in left_out else is_same(ours[name], kafka[name]) for name in ours
            )
        case list(), list():
            assert isinstance(ours, list)
            assert isinstance(kafka, list)
            return len(ours) == len(kafka) and all(map(is_same, ours, kafka))
    return ours == kafka


def members_in_words(value: Document | None) -> Document | None:
    """The members of a classic group as the dump tool has them: subscription and assignment are decoded."""
    for member in [] if value is None else value["data"].get("members", ()):
        topics = subscribed_topics(member["subscription"])
        owned = member.pop("partitions")
        member["subscription"] = list(topics)
        member["assignment"] = owned
    return value


def dumped_members(value: Document | None) -> Document | None:
    """The same of what the dump tool prints."""
    for member in [] if value is None else value["data"].get("members", ()):
        member["subscription"] = member["subscription"]["topics"]
        member["assignment"] = [
            [one["topic"], number]
            for one in member["assignment"]["assignedPartitions"]
            for number in one["partitions"]
        ]
    return value


def dumped(data: Path, tools: ToolShell) -> dict[tuple[int, int], tuple[Document, Document | None]]:
    """Key and value of every record, by partition and offset, as the dump tool prints them; no markers."""
    found = {}
    for folder in data.glob("__consumer_offsets-*"):
        files = ",".join(str(path) for path in folder.glob("*.log") if path.stat().st_size)
        if not files:
            continue
        for line in tools.check(Tool.DUMP_LOG, "--files", files, "--offsets-decoder").lines():
            if (printed := PRINTED.match(line)) is not None:
                _, key, value = printed.groups()
                found[int(folder.name.rpartition("-")[2]), int(printed[1])] = (
                    with_numbers(key),
                    None if value == "<DELETE>" else with_numbers(value),
                )
    return found


def test_every_record_has_the_values_that_kafkas_dump_tool_prints(
    written: Written, kafka_tools: ToolShell
) -> None:
    printed, mine = dumped(written.data, kafka_tools), rows(written.data)
    markers = {place: row["details"] for place, row in mine.items() if row["kind"] == "control"}
    assert sorted(markers.values()) == ["ABORT", "COMMIT"]
    assert mine.keys() - markers.keys() == printed.keys()
    assert {row["record_type"] for row in mine.values()} >= {1, 2, 3, 5, 6, 7, 8}
    assert [row["problem"] for row in mine.values() if row["problem"] is not None] == []
    for place, (key, value) in printed.items():
        row = mine[place]
        assert key_of(row) == key
        ours = members_in_words(value_of(row))
        assert is_same(ours, dumped_members(value)), f"{place}: {ours} is not {value}"


def test_commits_and_classic_groups_are_what_kafkas_formatters_print(written: Written) -> None:
    """With subscriptions and assignments as bytes. What came after the formatters have read is left out."""
    printed, mine = defaultdict(list), defaultdict(list)
    for each in written.formatted:
        printed[json.dumps(each["key"], sort_keys=True)].append(each["value"])
    for row in sorted(rows(written.data).values(), key=lambda row: row["src_offset"]):
        if row["record_type"] in (1, GROUP_METADATA):
            mine[json.dumps(key_of(row), sort_keys=True)].append(value_of(row))
    assert {json.loads(key)["type"] for key in printed} == {1, GROUP_METADATA}
    for key, values in printed.items():
        for ours, value in zip(mine[key][: len(values)], values, strict=True):
            for member in [] if ours is None else ours["data"].get("members", ()):
                del member["partitions"]  # which we add: the assignment in words
            assert is_same(ours, value), f"{key}: {ours} is not {value}"
