"""Queries, each with a driver and a checkpoint of its own, and two ordinary consumers in one group.

Members leave and come back, drivers are stopped and killed in the middle of a batch, records come all the
while: in the end every record is accounted for. The long rounds have two drivers; that two queries share a
group is in test_group.py as well.
"""

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.libraries import Library
from tests.clients.with_confluent import Confluent
from tests.clients.with_kafka_python import KafkaPython, lost_sockets_collected
from tests.spark.churn_driver import Driver
from tests.spark.churn_party import Churn

from kohort.testing.broker import Broker
from kohort.testing.plugin import Kohort

_log = logging.getLogger(__name__)

PARTITIONS = 8
ROUNDS = 12
KILLS = ("kill", "kill in a batch")
ENDS = (*KILLS, "stop", "drain")


@pytest.fixture
def churn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> Iterator[Churn]:
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker, lost_sockets_collected(caplog):
        topic = Kohort(broker, request.node.name).topic(partitions=PARTITIONS)
        with Churn(broker, tmp_path, topic, PARTITIONS) as made:
            yield made


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_is_accounted_for_when_a_driver_is_killed_and_stopped(churn: Churn) -> None:
    kafka_python, confluent = KafkaPython(), Confluent()
    everybody = ("driver", "kafka-python", "confluent")
    driver = churn.driver("driver")
    churn.join(kafka_python)
    churn.join(confluent)
    driver.wait("running")
    churn.until_shared(*everybody)
    churn.until("it to write", lambda: driver.batches() > 1)

    end(churn, driver, "kill in a batch")
    cut_off = driver.unfinished()
    assert cut_off, "it was in the middle of a batch"
    driver.start()
    churn.leave(kafka_python)
    driver.wait("running")
    churn.join(kafka_python)
    churn.until_shared(*everybody)
    end(churn, driver, "stop")
    driver.tell("start")
    driver.wait("running")
    churn.until_shared(*everybody)

    finish(churn)
    repeated = {(*one.where, offset) for one in cut_off for offset in range(one.start, one.end)}
    assert repeated <= {*driver.rows()}, "the same batch again, also of partitions that another member has"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_is_accounted_for_after_many_rounds(churn: Churn, seed: int) -> None:
    chance = random.Random(seed)
    libraries: list[Library] = [KafkaPython(), Confluent()]
    drivers = [churn.driver("first"), churn.driver("second")]
    for library in libraries:
        churn.join(library)
    for driver in drivers:
        driver.wait("running")
    for number in range(ROUNDS):
        churn.until_shared("first", "second", "kafka-python", "confluent")
        driver, library = chance.choice(drivers), chance.choice(libraries)
        how, leaves = chance.choice(ENDS), chance.random() < 0.5
        _log.info("round %d: %s %s, %s leaves: %s", number, how, driver.name, library.name, leaves)
        end(churn, driver, how)
        if leaves:
            churn.leave(library)
        driver.start() if how in KILLS else driver.tell("start")
        driver.wait("running")
        if leaves:
            churn.join(library)
    churn.until_shared("first", "second", "kafka-python", "confluent")
    finish(churn)


def end(churn: Churn, driver: Driver, how: str) -> None:
    """One way or another."""
    if how == "kill in a batch":
        churn.wire.hold(driver.name)
        churn.wire.await_held()
    if how in KILLS:
        driver.kill()
        churn.wire.let_go()
    else:
        driver.tell(how)
        driver.wait("stopped" if how == "stop" else "drained")


def finish(churn: Churn) -> None:
    """Let the group come to its end, and settle the account."""
    churn.until_committed()
    for driver in churn.drivers.values():
        driver.tell("drain")
        driver.wait("drained")
        driver.end()
    for library in (KafkaPython(), Confluent()):
        churn.leave(library)
    account = churn.account()
    _log.info("%s", account)
    assert account.missing == []
    assert set(account.twice.values()) == {0}, "each checkpoint has its records once"
    assert all(account.by_member.values()), "every member has worked"
    churn.check_wire()
