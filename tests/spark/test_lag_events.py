"""Lag and membership in Spark's progress events; secrets are in none of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.waiting import eventually

from kohort import Producer
from kohort.spark import watch_lag
from kohort.spark.lag_events import lags
from kohort.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
PASSWORD = "correct-horse-battery"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    configs = {"num.partitions": 2, "group.initial.rebalance.delay.ms": 0}
    with Broker(configs=configs, security={"alice": PASSWORD}) as started:
        with Producer(bootstrap_servers=started.bootstrap, **started.client_security("alice")) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number, partition=number % 2)
        yield started


def test_a_member_shows_lag_and_generation_in_progress_events_and_no_secret(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    listener = watch_lag(spark)
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": "orders",
        "kafka.group.id": "billing",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": PASSWORD,
        "kafka.ssl.truststore.certificates": broker.certificate,
    }
    frame = spark.readStream.format("kohort").options(**options).load()
    writer = frame.writeStream.format("noop").queryName("late riser").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(120)
    told = [one for each in query.recentProgress for one in lags("late riser", json.loads(each.json))]
    assert [one.lag for one in told] == [6, 2, 0]
    assert {(one.group, one.generation, one.partitions) for one in told} == {("billing", 1, 2)}
    eventually(
        "the listener to hear of the last batch", lambda: listener.newest.get("late riser") == told[-1]
    )
    spark.streams.removeListener(listener)
    shown = [each.json for each in query.recentProgress]
    shown += [str(frame._jdf.queryExecution()), str(query._jsq.explainInternal(True))]
    assert not any(PASSWORD in text for text in shown)


def test_sources_of_other_kinds_say_nothing() -> None:
    progress = {
        "sources": [{"latestOffset": None}, {"latestOffset": "17"}, {"latestOffset": {"t": {"0": 1}}}]
    }
    assert list(lags("q", progress)) == []
