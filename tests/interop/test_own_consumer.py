"""Kohort's own consumer against Apache Kafka and Kohort: alone, among its kind, and with Java's clients."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Producer as ConfluentProducer
from tests.clients.feed import Feed
from tests.clients.libraries import CODECS, Membership, Production
from tests.clients.party import Party
from tests.clients.records import assert_same, samples
from tests.clients.test_own_consumer import read
from tests.clients.with_confluent import Confluent
from tests.clients.with_own import Own, got
from tests.interop.conftest import StartTarget, need
from tests.interop.peers import BY_NAME, PeerProcess, started
from tests.interop.targets import Target

from kohort.client.admin.results import NewTopic
from kohort.client.admin.topics import create_topics
from kohort.client.cluster import ClusterClient
from kohort.client.consumer import Consumer
from kohort.client.subscription import OffsetAndMetadata, Partitions
from kohort.model.errors import KohortError

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 4
FreshName = Callable[[str], str]


def make_topic(target: Target, name: str, partitions: int = PARTITIONS) -> str:
    async def create() -> None:
        async with ClusterClient(target.bootstrap) as cluster:
            kept = {"retention.ms": "-1"}  # records have old timestamps: Kafka would delete them after 30 s
            wanted = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=kept)
            for result in (await create_topics(cluster, [wanted], validate_only=False)).values():
                if isinstance(result, KohortError):
                    raise result

    asyncio.run(create())
    return name


def reader(target: Target, **more: object) -> Consumer:
    usual: dict[str, object] = {"bootstrap_servers": target.bootstrap, "auto_offset_reset": "earliest"}
    return Consumer(**(usual | more))  # type: ignore[arg-type]  # the tests' own names


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(target: Target, fresh_name: FreshName, codec: str) -> None:
    topic, sent = make_topic(target, fresh_name("own-codec"), 3), samples(300, partitions=3)
    Confluent().produce(target.bootstrap, topic, sent, Production(codec=codec))
    with reader(target) as consumer:
        consumer.assign([(topic, number) for number in range(3)])
        assert_same([got(one) for one in read(consumer, 300)], sent, partitions=3)
        assert set(consumer.end_offsets([(topic, 0)]).values()) == {100}


def test_commits_outlive_the_consumer_with_their_notes(target: Target, fresh_name: FreshName) -> None:
    topic = make_topic(target, fresh_name("own-commits"), 1)
    Confluent().produce(target.bootstrap, topic, samples(10, partitions=1), Production())
    with reader(target, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        read(consumer, 10)
        consumer.commit({(topic, 0): OffsetAndMetadata(4, 0, "up to four")})
    with reader(target, group_id=topic) as consumer:
        consumer.subscribe([topic])
        assert [one.offset for one in read(consumer, 6)] == list(range(4, 10))
    with reader(target, group_id=topic) as consumer:
        (found,) = consumer.committed((topic, 0)).values()
        assert found is not None
        assert found.offset == 10  # by the auto-commit of the second


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_hand_over_and_lose_nothing(
    target: Target, fresh_name: FreshName, assignor: str
) -> None:
    """The ledger of the party checks that callbacks come in order and nobody reads what another owns."""
    feed = Feed(target.bootstrap, make_topic(target, fresh_name(f"own-{assignor}")), PARTITIONS)
    names = ("one", "two", "three")
    with Party(target.bootstrap) as party:
        feed.more(40)
        for name in names:
            member = Membership(name=name, group=feed.topic, topics=(feed.topic,), assignors=(assignor,))
            party.join(Own(), member)
            party.until_work(20)
            party.commit_all()
            feed.more(20)
        party.until_shared(*names, places=PARTITIONS)
        party.leave("one")
        party.until_shared(*names[1:], places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)


def test_a_static_member_comes_back_to_what_it_had_and_nobody_notices(
    target: Target, fresh_name: FreshName
) -> None:
    feed = Feed(target.bootstrap, make_topic(target, fresh_name("own-static")), PARTITIONS)
    feed.more(10)
    members = {
        name: Membership(name=name, group=feed.topic, topics=(feed.topic,), instance_id=name)
        for name in ("one", "two")
    }
    with Party(target.bootstrap) as party:
        for member in members.values():
            party.join(Own(), member)
        party.until_shared("one", "two", places=PARTITIONS)
        held = party.ledger.by_member()
        party.leave("two")
        party.join(Own(), members["two"])
        party.until_shared("one", "two", places=PARTITIONS)
        assert party.ledger.by_member() == held
        feed.more(10)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.leave_together()


def transactional(bootstrap: str, name: str) -> ConfluentProducer:
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    return producer


def write(producer: ConfluentProducer, topic: str, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.flush(30)


def test_read_committed_sees_what_transactions_decided(
    start_target: StartTarget, fresh_name: FreshName
) -> None:
    """Kohort's broker has no transactions: Kafka alone."""
    target = start_target("kafka")
    topic = make_topic(target, fresh_name("own-transactions"), 1)
    producer = transactional(target.bootstrap, topic)
    write(producer, topic, "a", "b")
    producer.commit_transaction(30)
    write(producer, topic, "gone")
    producer.abort_transaction(30)
    write(producer, topic, "c")
    producer.commit_transaction(30)
    write(producer, topic, "open")  # and never decided while the test reads
    with reader(target, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        assert [one.value for one in read(consumer, 3)] == [b"a", b"b", b"c"]
        (stable,) = consumer.end_offsets([(topic, 0)]).values()
        assert consumer.position((topic, 0)) == stable
    with reader(target) as consumer:
        consumer.assign([(topic, 0)])
        assert [one.value for one in read(consumer, 5)] == [b"a", b"b", b"gone", b"c", b"open"]
        (end,) = consumer.end_offsets([(topic, 0)]).values()
        assert end == stable + 1
    producer.abort_transaction(30)


class Working:
    """Our member of a mixed group, at work on a thread of its own."""

    def __init__(self, target: Target, topic: str, assignor: str) -> None:
        self.values: set[str] = set()
        self.held: set[int] = set()
        self.heard: list[str] = []
        self.failure: Exception | None = None
        self._changed = threading.Condition()
        self._is_over = threading.Event()
        self._settings = {
            "group_id": topic,
            "partition_assignment_strategy": (assignor,),
            "heartbeat_interval_ms": 200,
            "auto_commit_interval_ms": 100,
        }
        self._target, self._topic = target, topic
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with reader(self._target, **self._settings) as consumer:
                consumer.subscribe([self._topic], listener=self)
                while not self._is_over.is_set():
                    records = consumer.poll(100)
                    with self._changed:
                        self.values |= {one.value.decode() for each in records.values() for one in each}
                        self._changed.notify_all()
        except Exception as error:
            self.failure = error

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._hear("assigned", self.held.union(each.partition for each in partitions))

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._hear("revoked", self.held.difference(each.partition for each in partitions))

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self._hear("lost", self.held.difference(each.partition for each in partitions))

    def _hear(self, word: str, held: set[int]) -> None:
        with self._changed:
            self.heard.append(word)
            self.held = held
            self._changed.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, 90), (self.heard, self.held, self.failure)

    @contextmanager
    def at_work(self) -> Iterator["Working"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join()
        assert self.failure is None


def numbers(peer: PeerProcess) -> set[int]:
    return {int(each.rsplit("-", 1)[1]) for each in peer.owned()}


@pytest.mark.parametrize(
    ("java", "assignor", "leads"),
    [
        ("java-4", "range", "ours"),
        ("java-3.9", "range", "java"),
        ("java-3.9", "sticky", "ours"),
        ("java-4", "sticky", "java"),
        ("java-4", "cooperative-sticky", "ours"),
        ("java-3.9", "cooperative-sticky", "java"),
    ],
)
def test_one_group_with_javas_client(
    target: Target, fresh_name: FreshName, java: str, assignor: str, leads: str
) -> None:
    """Whoever comes first leads; both read on, and when one leaves the other has everything."""
    client = BY_NAME[java]
    need(client.peer)
    topic = make_topic(target, fresh_name(f"own-{java}-{assignor}"))
    ours = Working(target, topic, assignor)
    options: dict[str, object] = {"topic": topic, "group": topic, "assignor": assignor}
    wanted = {f"v{number}" for number in range(40)}
    fill = ConfluentProducer({"bootstrap.servers": target.bootstrap})
    for number in range(40):
        fill.produce(topic, f"v{number}".encode(), key=b"k", partition=number % PARTITIONS)
    fill.flush(30)
    with ExitStack() as stack:
        if leads == "ours":
            stack.enter_context(ours.at_work())
            ours.until(lambda: len(ours.held) == PARTITIONS)
        other = stack.enter_context(started(client, target.bootstrap, "group", **options))
        if leads == "java":
            other.until("all partitions", lambda peer: len(peer.owned()) == PARTITIONS)
            stack.enter_context(ours.at_work())
        other.until("half of the partitions", lambda peer: len(peer.owned()) == PARTITIONS // 2)
        ours.until(lambda: ours.held == set(range(PARTITIONS)) - numbers(other))
        events = other.leave()
        ours.until(lambda: len(ours.held) == PARTITIONS)
        theirs = {each["value"] for each in events if each["event"] == "record"}
        ours.until(lambda: wanted <= ours.values | theirs)
        assert "lost" not in ours.heard
        assert ours.heard[0] == "assigned"
        if assignor != "cooperative-sticky":  # eager: everything goes before anything comes
            assert ours.heard == ["assigned", "revoked"] * (len(ours.heard) // 2) + ["assigned"]


def test_a_member_of_java_that_vanishes_leaves_its_share_to_ours(
    target: Target, fresh_name: FreshName
) -> None:
    client = BY_NAME["java-4"]
    need(client.peer)
    topic = make_topic(target, fresh_name("own-vanished"))
    options: dict[str, object] = {"topic": topic, "group": topic, "assignor": "range", "session": 1500}
    ours = Working(target, topic, "range")
    with ours.at_work():
        ours.until(lambda: len(ours.held) == PARTITIONS)
        with started(client, target.bootstrap, "group", alone=True, **options) as other:
            other.until("half of the partitions", lambda peer: len(peer.owned()) == PARTITIONS // 2)
            other.die()
            ours.until(lambda: len(ours.held) == PARTITIONS)
