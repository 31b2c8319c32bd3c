"""The catalog of one node, on its disk."""

import asyncio
from collections.abc import Coroutine
from errno import EIO, ENOSPC
from typing import Any, TypeVar

import pytest

from kohort.log.catalog import CLUSTER_DEFAULT, ClusterCatalog
from kohort.log.files.catalog_file import CorruptCatalogError, FileCatalog, Identity
from kohort.log.files.catalog_state import CATALOG, CatalogState, decode, encode
from kohort.log.files.checkpoints import META_PROPERTIES, OFFSETS_PARTITIONS
from kohort.log.files.directory import DataDirectory, ForeignDirectoryError
from kohort.log.files.disk import read_file
from kohort.log.files.memory import Immediately
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, NodeId, Partition, TopicId, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, Topic, TopicPartition, show_topic_id
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.testing.faults import FakeDisk, Fault, FaultyExecutor, Kind, Outage, Survival

T = TypeVar("T")
ORDERS = TopicName("orders")
PATH = f"data/{CATALOG}"


def topic(name: str, number: int = 1, partitions: int = 3) -> Topic:
    return Topic(TopicName(name), TopicId(bytes([number]) * 16), partitions, {"retention.ms": "5"})


class Node:
    """A catalog that can be opened again and again on one disk."""

    def __init__(self, disk: FakeDisk | None = None) -> None:
        self.disk = disk or FakeDisk()
        self.executor = FaultyExecutor()
        self.start()

    def start(self, cluster_id: str = "cluster") -> None:
        self.directory = DataDirectory(self.disk, "data")
        identity = Identity(cluster_id, NodeId(1))
        self.catalog = asyncio.run(FileCatalog.open(self.directory, identity, self.executor))

    def restart(self) -> None:
        self.directory.close(clean=True)
        self.start()

    def crash(self) -> None:
        self.disk.crash()
        self.start()

    def do(self, change: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(_awaited(change))

    def refuse(self, change: Coroutine[Any, Any, T]) -> ErrorCode:
        with pytest.raises(RefusedError) as refusal:
            self.do(change)
        return refusal.value.code

    def lines(self) -> list[bytes]:
        return (read_file(self.disk, PATH) or b"").splitlines()


async def many_changes(catalog: FileCatalog, count: int) -> None:
    for number in range(count):
        await catalog.set_broker_configs("1", {"n": str(number)})


async def _awaited(change: Coroutine[Any, Any, T]) -> T:
    return await change


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_new_catalog_is_empty_and_knows_who_it_is(node: Node) -> None:
    catalog = node.catalog
    cluster: ClusterCatalog = catalog
    assert cluster.view.topics == {}
    assert (catalog.cluster_id, catalog.node_id) == ("cluster", 1)
    assert (dict(catalog.topics), dict(catalog.deleted), dict(catalog.broker_configs)) == ({}, {}, {})


def test_the_cluster_id_is_chosen_once(node: Node) -> None:
    node.directory.close(clean=True)
    node.start("another")
    assert node.catalog.cluster_id == "cluster"


def test_the_cluster_id_of_a_directory_that_kafka_made_is_kept() -> None:
    disk = FakeDisk()
    directory = DataDirectory(disk, "data")
    directory.identify("from kafka", NodeId(1))
    directory.close(clean=True)
    assert Node(disk).catalog.cluster_id == "from kafka"


def test_the_number_of_offsets_partitions_is_noted_outside_the_catalog_too(node: Node) -> None:
    def noted() -> str | None:
        return node.directory.identity().get(OFFSETS_PARTITIONS)

    assert noted() is None
    node.do(node.catalog.create_topic(Topic(CONSUMER_OFFSETS, TopicId(b"c" * 16), 2)))
    assert noted() == "2"
    node.do(node.catalog.add_partitions(CONSUMER_OFFSETS, 3))
    assert noted() == "3"
    node.disk.remove(f"data/{META_PROPERTIES}")  # as of a release that did not note it
    node.restart()
    assert noted() == "3"
    node.crash()
    assert noted() == "3"


def test_the_directory_of_another_node_is_refused(node: Node) -> None:
    node.directory.close(clean=True)
    directory = DataDirectory(node.disk, "data")
    with pytest.raises(ForeignDirectoryError):
        asyncio.run(FileCatalog.open(directory, Identity("cluster", NodeId(2)), Immediately()))


def test_a_topic_is_there_after_a_crash_if_creating_it_returned(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("orders")))
    node.crash()
    assert dict(node.catalog.topics) == {"orders": topic("orders")}
    assert node.catalog.topic_by_id(topic("orders").topic_id) == topic("orders")
    assert node.catalog.topic_by_id(TopicId(bytes(16))) is None


def test_names_are_unique_and_do_not_collide(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("a.b")))
    assert node.refuse(node.catalog.create_topic(topic("a.b", 2))) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert node.refuse(node.catalog.create_topic(topic("a_b", 2))) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_two_who_create_one_topic_at_a_time_do_not_both_succeed(node: Node) -> None:
    async def both() -> tuple[BaseException | None, BaseException | None]:
        return await asyncio.gather(
            node.catalog.create_topic(topic("orders", 1)),
            node.catalog.create_topic(topic("orders", 2)),
            return_exceptions=True,
        )

    results = node.do(both())
    assert [isinstance(result, RefusedError) for result in results] == [False, True]


def test_a_deleted_topic_is_gone_and_its_files_are_still_to_be_removed(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("orders")))
    assert node.do(node.catalog.delete_topic(ORDERS)) == topic("orders")
    node.crash()
    assert dict(node.catalog.topics) == {}
    assert dict(node.catalog.deleted) == {topic("orders").topic_id: "orders"}
    node.do(node.catalog.create_topic(topic("orders", 2)))
    node.do(node.catalog.forget_deleted([topic("orders").topic_id]))
    node.crash()
    assert dict(node.catalog.deleted) == {}
    assert node.catalog.topics[ORDERS].topic_id == topic("orders", 2).topic_id


def test_what_is_not_there_cannot_be_changed(node: Node) -> None:
    catalog = node.catalog
    for change in (
        catalog.delete_topic(ORDERS),
        catalog.add_partitions(ORDERS, 5),
        catalog.set_topic_configs(ORDERS, {}),
    ):
        assert node.refuse(change) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(RefusedError):
        catalog.leader_epoch(TopicPartition(ORDERS, Partition(0)))


def test_partitions_only_become_more(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("orders")))
    assert node.do(node.catalog.add_partitions(ORDERS, 5)).partitions == 5
    assert node.refuse(node.catalog.add_partitions(ORDERS, 5)) is ErrorCode.INVALID_PARTITIONS
    node.crash()
    assert node.catalog.topics[ORDERS].partitions == 5


def test_configs_are_replaced_as_a_whole(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("orders")))
    node.do(node.catalog.set_topic_configs(ORDERS, {"cleanup.policy": "compact"}))
    node.do(node.catalog.set_broker_configs(CLUSTER_DEFAULT, {"a": "1"}))
    node.do(node.catalog.set_broker_configs("1", {"b": "2"}))
    node.do(node.catalog.set_broker_configs("1", {"c": "3"}))
    node.do(node.catalog.set_group_configs("g", {"d": "4"}))
    node.do(node.catalog.set_group_configs("gone", {"d": "4"}))
    node.do(node.catalog.set_group_configs("gone", {}))
    node.crash()
    assert node.catalog.topics[ORDERS].configs == {"cleanup.policy": "compact"}
    assert dict(node.catalog.broker_configs) == {"": {"a": "1"}, "1": {"c": "3"}}
    assert dict(node.catalog.group_configs) == {"g": {"d": "4"}}


def test_leader_epochs_begin_at_zero_and_grow_with_every_start(node: Node) -> None:
    partition = TopicPartition(ORDERS, Partition(0))
    late = TopicPartition(TopicName("late"), Partition(0))
    node.do(node.catalog.create_topic(topic("orders")))
    assert node.catalog.leader_epoch(partition) == 0
    node.restart()
    assert node.catalog.leader_epoch(partition) == 1
    node.do(node.catalog.create_topic(topic("late", 2)))
    assert node.catalog.leader_epoch(late) == 0
    node.crash()
    assert (node.catalog.leader_epoch(partition), node.catalog.leader_epoch(late)) == (2, 1)


def test_a_topic_that_another_broker_wrote_goes_on_with_its_epochs(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("orders"), LeaderEpoch(41)))
    node.restart()
    assert node.catalog.leader_epoch(TopicPartition(ORDERS, Partition(0))) == 42


def test_a_producer_id_is_never_handed_out_twice(node: Node) -> None:
    async def many() -> list[int]:
        return await asyncio.gather(*[node.catalog.next_producer_id() for _ in range(1_500)])

    seen = node.do(many())
    node.crash()
    seen += node.do(many())
    assert len(set(seen)) == 3_000


def test_a_change_goes_on_when_whoever_asked_is_gone(node: Node) -> None:
    async def story() -> None:
        task = asyncio.ensure_future(node.catalog.create_topic(topic("orders")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await node.catalog.create_topic(topic("other", 2))

    node.do(story())
    node.crash()
    assert set(node.catalog.topics) == {"orders", "other"}


@pytest.mark.parametrize("fault", [Fault(1, ENOSPC), Fault(1, 0, written=10), Fault(1, EIO, written=10)])
def test_a_change_that_cannot_be_written_did_not_happen(node: Node, fault: Fault) -> None:
    node.disk.fail(writes=[fault])
    assert node.refuse(node.catalog.create_topic(topic("lost"))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert dict(node.catalog.topics) == {}
    node.do(node.catalog.create_topic(topic("orders")))
    node.crash()
    assert list(node.catalog.topics) == ["orders"]
    assert node.catalog.repairs == []


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_after_failed_syncs_the_catalog_is_written_again_into_another_file(node: Node, failures: int) -> None:
    """The change, the new file and its name in the directory: each is a sync that may fail."""
    node.do(node.catalog.create_topic(topic("before")))
    node.disk.fail(syncs=[Fault(number) for number in range(1, failures + 1)])
    for number in range(failures):
        change = node.catalog.create_topic(topic("unsure", 2 + number))
        assert node.refuse(change) is ErrorCode.KAFKA_STORAGE_ERROR
        assert list(node.catalog.topics) == ["before"]
    node.do(node.catalog.create_topic(topic("after", 9)))
    node.crash()
    assert list(node.catalog.topics) == ["before", "after"]


def test_a_catalog_that_failed_can_be_recovered_before_the_next_change(node: Node) -> None:
    node.disk.fail(syncs=[Fault(1)])
    node.refuse(node.catalog.create_topic(topic("unsure")))
    node.do(node.catalog.recover())
    node.disk.crash(Survival.PREFIX, kept=1_000)
    node.start()
    assert list(node.catalog.topics) == []


def test_a_line_torn_at_any_byte_is_a_change_that_did_not_happen() -> None:
    node = Node()
    node.do(node.catalog.create_topic(topic("orders")))
    whole = read_file(node.disk, PATH) or b""
    added = encode(CatalogState().topic_record(topic("torn", 2), LeaderEpoch(0)))
    for kept in range(1, len(added)):
        disk = FakeDisk()
        disk.make_directory("data")
        disk.open(PATH, create=True).write(whole + added[:kept], 0)
        again = Node(disk)
        assert list(again.catalog.topics) == ["orders"]
        assert f"cut {kept} bytes" in again.catalog.repairs[0].what


def test_zeros_at_the_end_are_cut_too() -> None:
    node = Node()
    node.do(node.catalog.create_topic(topic("orders")))
    node.disk.open(PATH).write(bytes(100), len(read_file(node.disk, PATH) or b""))
    node.restart()
    assert list(node.catalog.topics) == ["orders"]


def test_damage_in_the_middle_is_not_passed_over(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("orders")))
    node.disk.open(PATH).write(b"?", 30)
    node.directory.close(clean=True)
    with pytest.raises(CorruptCatalogError, match="kohort data repair data"):
        node.start()


def test_history_is_left_behind_and_the_state_kept(node: Node) -> None:
    node.do(node.catalog.create_topic(topic("gone", 9)))
    node.do(node.catalog.delete_topic(TopicName("gone")))
    node.do(node.catalog.create_topic(topic("gone", 8)))
    node.do(node.catalog.create_topic(topic("orders")))
    node.do(node.catalog.next_producer_id())
    node.do(many_changes(node.catalog, 1_100))
    assert len(node.lines()) < 200
    before = dict(node.catalog.topics), dict(node.catalog.deleted)
    node.crash()
    assert (dict(node.catalog.topics), dict(node.catalog.deleted)) == before
    assert set(node.catalog.topics) == {"gone", "orders"}
    assert dict(node.catalog.broker_configs) == {"1": {"n": "1099"}}
    assert node.catalog.leader_epoch(TopicPartition(ORDERS, Partition(0))) == 1
    assert node.do(node.catalog.next_producer_id()) == 1_000


def test_a_change_after_many_deletions_is_one_line(node: Node) -> None:
    ids = [TopicId(number.to_bytes(16, "big")) for number in range(1_010)]
    gone = [{"type": "topic-leftover", "id": show_topic_id(each), "name": "t"} for each in ids]
    node.disk.open(PATH).write(b"".join(map(encode, gone)), len(read_file(node.disk, PATH) or b""))
    node.restart()
    assert len(node.catalog.deleted) == 1_010
    before = node.disk.writes
    node.do(many_changes(node.catalog, 20))
    assert node.disk.writes == before + 20


def test_history_stays_when_there_is_no_space_to_leave_it_behind(node: Node) -> None:
    lines = len(node.lines())
    rewrite = 1_000 - lines + 2  # the first write beyond a thousand lines, and it is not a line
    node.disk.fail(writes=[Fault(rewrite, ENOSPC)])
    node.do(many_changes(node.catalog, 1_000))
    assert node.disk.writes > rewrite
    assert len(node.lines()) > 1_000
    node.crash()
    assert dict(node.catalog.broker_configs) == {"1": {"n": "999"}}


def test_a_record_of_a_later_release_is_passed_over(node: Node) -> None:
    size = len(read_file(node.disk, PATH) or b"")
    node.disk.open(PATH).write(encode({"type": "from the future"}), size)
    node.restart()
    assert node.catalog.repairs == []


def test_a_line_is_read_as_it_was_written() -> None:
    record = {"type": "topic", "name": "ä", "configs": {"a": "1"}}
    assert decode(encode(record).rstrip(b"\n")) == record
    assert decode(b"nonsense") is None


def test_a_catalog_that_cannot_be_written_is_one_line_in_the_log_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Node()
    for number in (1, 2):
        caplog.clear()
        node.disk.suffer(Outage(Kind.WRITE, 1, 3))
        for _ in range(3):
            change = node.catalog.create_topic(topic(f"orders{number}", number))
            assert node.refuse(change) is ErrorCode.KAFKA_STORAGE_ERROR
        (line,) = caplog.messages
        assert line.startswith("data/kohort.catalog could not be written: ")
        node.do(node.catalog.create_topic(topic(f"orders{number}", number)))


@pytest.mark.parametrize("kind", [Kind.THREAD, Kind.MEMORY])
def test_a_change_of_thousands_of_rules_needs_a_thread_and_is_refused_without_one(
    node: Node, kind: Kind
) -> None:
    rules = [
        Acl(
            AclResourceType.TOPIC,
            f"t-{number}",
            PatternType.LITERAL,
            "User:a",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        for number in range(1_001)
    ]
    node.executor.suffer(Outage(kind, 1))
    assert node.refuse(node.catalog.change_acls((), rules)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not node.catalog.acls
    node.executor.suffer(None)
    node.do(node.catalog.change_acls((), rules))
    node.restart()
    assert list(node.catalog.acls) == rules
