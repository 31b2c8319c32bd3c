"""Three real nodes on one PostgreSQL, real clients, and faults: nothing that was acknowledged is lost."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from operator import gt
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.libraries import Library, Membership, Production, ReadPartition, Sample  # noqa: E402 (needs the path above)
from tests.clients.loads import AiokafkaLoad, ConfluentLoad, KafkaPythonLoad, Load  # noqa: E402 (same)
from tests.clients.party import Party  # noqa: E402 (same)
from tests.clients.under_faults import COMMITTED, Committer, Producing, check  # noqa: E402 (same)
from tests.clients.waiting import eventually  # noqa: E402 (same)
from tests.clients.with_aiokafka import Aiokafka, LoopThread  # noqa: E402 (same)
from tests.clients.with_confluent import Confluent  # noqa: E402 (same)
from tests.clients.with_kafka_python import KafkaPython, lost_sockets_collected  # noqa: E402 (same)
from tests.clients.with_own import Own  # noqa: E402 (same)

from kohort.testing.cluster import Cluster, ClusterNode  # noqa: E402 (same)
from kohort.testing.proxy import Direction  # noqa: E402 (same)

# See lost_sockets_collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.usefixtures("_collect_lost_sockets"),
    pytest.mark.slow,
]
QUICK = {
    "offsets.topic.num.partitions": 6,
    "group.initial.rebalance.delay.ms": 0,
    "kohort.cluster.lease.ms": 1_500,
    "kohort.cluster.renewal.ms": 200,
    "kohort.cluster.rebalance.delay.ms": 1_000,
}
ACKNOWLEDGED = 100  # of each producer, before and after each fault
COMMITS = 10
PARTITIONS = 6


@pytest.fixture
def _collect_lost_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with lost_sockets_collected(caplog):
        yield


@pytest.fixture
def aio() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.stop()


WorkGoesOn = Callable[[], None]
Members = dict[str, tuple[Library, str]]  # with their protocols, by name


def kill(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    node.kill()
    work_goes_on()
    node.start()


def stand_still(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    """For longer than the lease. Clients wait for the node's answers until it goes on and refuses them."""
    node.pause()
    eventually("the others to declare the node dead", lambda: node.node_id not in cluster.living())
    node.resume()


def cut_off(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    assert node.database is not None
    node.database.refuse()
    work_goes_on()
    node.database.heal()


def lose_replies(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    """What the database has committed is not known to the node."""
    assert node.database is not None
    node.database.drop(Direction.BACK)
    work_goes_on()
    node.database.heal()


def kill_postgres(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    cluster.postgres.restart(crash=True)


def restart_postgres(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    cluster.postgres.restart()


def stall_postgres(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    """It says nothing to any node, for longer than their windows."""

    def lapses() -> list[int]:
        return [each.said().count("has lapsed") for each in cluster.nodes]

    before = lapses()
    for each in cluster.nodes:
        assert each.database is not None
        each.database.hold()
    eventually("all nodes to lapse", lambda: all(map(gt, lapses(), before)))
    for each in cluster.nodes:
        assert each.database is not None
        each.database.release()


def grow_and_shrink(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    """A node is added, gets its share, gives it back and goes, all under load."""
    added = cluster.add_node()
    cluster.move(COMMITTED.topic, COMMITTED.partition, to=added)
    work_goes_on()
    cluster.drain(added)
    work_goes_on()
    added.stop()
    assert "Traceback" not in added.said(), added.said()
    cluster.nodes.remove(added)


def restart_all(cluster: Cluster, node: ClusterNode, work_goes_on: WorkGoesOn) -> None:
    for each in cluster.nodes:
        each.restart()
        work_goes_on()


FAULTS = (
    lose_replies,
    kill,
    stand_still,
    kill_postgres,
    cut_off,
    grow_and_shrink,
    restart_postgres,
    restart_all,
    stall_postgres,
)
QUICKLY = 5  # of them
HOUR_S = 3_600


@pytest.mark.parametrize(
    "rounds", [QUICKLY, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])]
)
def test_nothing_acknowledged_is_lost_whatever_fails(aio: LoopThread, rounds: int) -> None:
    # None is behind its clients: like Kafka, it would refuse their records with INVALID_TIMESTAMP.
    clocks = (0, 5 * HOUR_S, 12 * HOUR_S)
    with (
        Cluster(3, configs=QUICK, proxied=True, clocks_ahead_s=clocks) as cluster,
        ExitStack() as stack,
        Party(cluster.bootstrap) as party,
    ):
        cluster.create_topic("orders", partitions=PARTITIONS)
        # Not kafka-python, which keeps positions that it has not committed over a rebalance.
        members: dict[str, Library] = {"c": Confluent(), "a": Aiokafka(aio), "o": Own()}
        for name, library in members.items():
            # They are not polled while a fault lasts, and aiokafka stands still for ever if that is too long.
            membership = Membership(name=name, group="billing", topics=("orders",), rebalance_ms=300_000)
            party.join(library, membership)
        party.until_shared(*members, places=PARTITIONS)
        loads: list[Load] = [
            ConfluentLoad(cluster.bootstrap, "plain", idempotent=False),
            ConfluentLoad(cluster.bootstrap, "idempotent", idempotent=True, codec="lz4"),
            KafkaPythonLoad(cluster.bootstrap, "kafka-python"),
            AiokafkaLoad(cluster.bootstrap, "aiokafka", aio),
        ]
        sample = [Sample(0, None, b"x", (), 0)]
        Confluent().produce(cluster.bootstrap, COMMITTED.topic, sample, Production())
        committers = [
            stack.enter_context(Committer(cluster.bootstrap, f"group-{number}")) for number in range(3)
        ]
        with Producing(loads) as producing:

            def work_goes_on() -> None:
                producing.wait_for(ACKNOWLEDGED)
                for committer in committers:
                    committer.check()
                    committer.wait_for(COMMITS)

            for committer in committers:
                committer.wait_for(COMMITS)
            for number, fault in enumerate(islice(cycle(FAULTS), rounds)):
                print(f"round {number}: {fault.__name__}")
                feed(cluster, 10 * number)
                fault(cluster, cluster.nodes[number % 3], work_goes_on)
                work_goes_on()
                party.until_shared(*members, places=PARTITIONS)
                party.commit_all()
        until_all_is_done(party, members, 10 * rounds)
        for load in loads:
            load.finish()
            check(load, cluster.bootstrap, repeats=load.topic == "plain")
        for node in cluster.nodes:
            assert "Traceback" not in node.said(), node.said()


def test_groups_of_both_kinds_survive_the_death_of_their_coordinator(aio: LoopThread) -> None:
    classic: Members = {
        "c": (Confluent(), "classic"),
        "k": (KafkaPython(), "classic"),
        "a": (Aiokafka(aio), "classic"),
    }
    newer: Members = {
        "n": (Confluent(), "consumer"),
        "o": (Own(), "consumer"),
        "b": (KafkaPython(), "classic"),
    }
    with (
        Cluster(3, configs=QUICK) as cluster,
        Party(cluster.bootstrap) as billing,
        Party(cluster.bootstrap) as shipping,
    ):
        cluster.create_topic("orders", partitions=PARTITIONS)
        feed(cluster, 0)
        for group, party, members in (("billing", billing, classic), ("shipping", shipping, newer)):
            for name, (library, protocol) in members.items():
                party.join(library, Membership(name=name, group=group, topics=("orders",), protocol=protocol))
            party.until_shared(*members, places=PARTITIONS)
            until_first_records(party)
            party.commit_all()
        doomed = cluster.coordinator("billing")
        assert cluster.move_coordinator("shipping", to=doomed) is doomed
        assert cluster.coordinator("shipping") is doomed

        doomed.kill()
        feed(cluster, 10)

        until_all_is_done(billing, classic, 20)
        until_all_is_done(shipping, newer, 20)


def until_first_records(party: Party) -> None:
    party.until("the first records", lambda: party.ledger.count() == PARTITIONS * 10)


def until_all_is_done(party: Party, names: Iterable[str], records: int) -> None:
    """Every member has its share, and so many records of each partition are committed."""
    party.until_shared(*names, places=PARTITIONS)
    everything = {ReadPartition("orders", partition): records for partition in range(PARTITIONS)}
    party.until("all to be committed", lambda: party.ledger.acknowledged == everything, committing=True)
    party.until_shared(*names, places=PARTITIONS)


def feed(cluster: Cluster, start: int) -> None:
    samples = [
        Sample(partition, None, b"%d" % number, (), 0)
        for partition in range(PARTITIONS)
        for number in range(start, start + 10)
    ]
    Confluent().produce(cluster.bootstrap, "orders", samples, Production(idempotent=True))
