"""Two queries, each with a driver and a checkpoint of its own, and two ordinary consumers in one group.

Members leave and come back, drivers are stopped and killed in the middle of a batch, records come all the
while: in the end every record is accounted for.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.with_confluent import Confluent
from tests.clients.with_kafka_python import KafkaPython, lost_sockets_collected
from tests.spark.churn_party import Churn

from kohort.testing.broker import Broker
from kohort.testing.plugin import Kohort

_log = logging.getLogger(__name__)

PARTITIONS = 8


@pytest.fixture
def churn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> Iterator[Churn]:
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker, lost_sockets_collected(caplog):
        topic = Kohort(broker, request.node.name).topic(partitions=PARTITIONS)
        with Churn(broker, tmp_path, topic, PARTITIONS) as made:
            yield made


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_record_is_accounted_for_when_drivers_are_stopped_and_killed(churn: Churn) -> None:
    kafka_python, confluent = KafkaPython(), Confluent()
    first, second = churn.driver("first"), churn.driver("second")
    churn.join(kafka_python)
    churn.join(confluent)
    first.wait("running")
    second.wait("running")
    churn.until_shared("first", "second", "kafka-python", "confluent")
    churn.until("both to write", lambda: first.batches() > 1 and second.batches() > 1)

    churn.wire.hold("second")
    churn.wire.await_held()
    second.kill()
    churn.wire.let_go()
    assert second.unfinished(), "it was in the middle of a batch"
    second.start()
    churn.leave(kafka_python)
    first.tell("stop")
    first.wait("stopped")
    first.tell("start")
    first.wait("running")
    second.wait("running")
    churn.join(kafka_python)
    churn.until_shared("first", "second", "kafka-python", "confluent")

    finish(churn)


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
    assert all(account.by_member.values()), "everybody has worked"
    churn.check_wire()
