"""Spark and the archive on a secured Kohort: driver and executors log in, no secret is shown (security 6)."""

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort import Admin, Producer
from kohort.lake import schemas
from kohort.lake.landing import SourceCluster, land
from kohort.lake.store import Lake
from kohort.security.certs import DevAuthority
from kohort.spark.pipelines.archive import ArchiveOptions, archive
from kohort.spark.pipelines.parquet import read_columns
from kohort.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CANARY = "canary-of-a-secret"
RECORDS = 40


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    configs: dict[str, str | int | bool] = {
        "authorizer": "acl",
        "super.users": "User:alice",
        "group.initial.rebalance.delay.ms": 0,
        "connections.max.reauth.ms": 2_000,  # what takes longer logs in again
        "connection.failed.authentication.delay.ms": 0,
    }
    with Broker(security={"alice": CANARY, "bob": f"{CANARY}-of-bob"}, configs=configs) as secured:
        yield secured


def send(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    with Producer(bootstrap_servers=broker.bootstrap, **broker.client_security("alice")) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=number % 2)


def pasted(
    broker: Broker, password: str = CANARY, user: str = "alice", module: str = "", trust: str = ""
) -> dict[str, str]:
    """Options as people paste them from Spark's own connector; the certificate without its line breaks."""
    scram = module or "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": (trust or broker.certificate).replace("\n", " "),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{scram} required username="{user}" password="{password}";',
    }


def test_a_query_in_a_group_reads_and_writes_and_shows_no_secret(
    broker: Broker,
    spark: "SparkSession",
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Security scenario 56. Given JAAS text, PEM text and ``@file``, when a batch and a stream in a group
    run, then their records are there, and the secret is in no plan, progress event, log line or checkpoint.
    """
    caplog.set_level(logging.DEBUG, logger="kohort")  # py4j logs all that goes to the JVM
    send(broker, "in")
    broker.create_topic("out")
    (tmp_path / "password").write_text(CANARY)
    stream = (
        spark.readStream.format("kohort")
        .options(**pasted(broker), subscribe="in", startingOffsets="earliest")
        .option("kafka.group.id", "spark")
        .load()
    )
    query = (
        stream.selectExpr("value")
        .writeStream.format("kohort")
        .options(**pasted(broker, f"@{tmp_path}/password"), topic="out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    found = spark.read.format("kohort").options(**pasted(broker), subscribe="out").load()
    assert sorted(int(bytes(row.value)) for row in found.collect()) == list(range(RECORDS))
    with Admin(broker.bootstrap, **broker.client_security("alice")) as admin:
        assert sum(one.offset for one in admin.list_group_offsets("spark").values()) == RECORDS
    files = (each for each in (tmp_path / "checkpoint").rglob("*") if each.is_file())
    shown = {
        "the plan of the batch": found._jdf.queryExecution().toString(),
        "the plan of the stream": query._jsq.explainInternal(True),
        "progress": json.dumps(query.recentProgress, default=str),
        "the checkpoint": "".join(each.read_text(errors="replace") for each in files),
        "the log": caplog.text,
        "the output": "".join(capfd.readouterr()),
    }
    assert not [name for name, text in shown.items() if CANARY in text]


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "password": ({"password": f"{CANARY}-wrong"}, "does not accept user 'alice' with SCRAM-SHA-512"),
    "module": ({"module": "com.sun.security.auth.module.Krb5LoginModule"}, "Krb5LoginModule"),
    "file": ({"password": "@/no/such/file"}, "cannot read the file /no/such/file"),
    "authority": (
        {"trust": DevAuthority(datetime.now(UTC), name="another").certificate},
        "is signed by an unknown authority",
    ),
    "rights": ({"user": "bob", "password": f"{CANARY}-of-bob"}, "TopicAuthorization"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_and_the_traceback_has_no_secret(
    broker: Broker, spark: "SparkSession", case: str
) -> None:
    """Security scenario 56. A query with wrong options fails with a named error, without the secret."""
    settings, why = WRONG[case]
    options = pasted(broker, **settings)
    with pytest.raises(Exception, match=why) as refused:
        spark.read.format("kohort").options(**options, subscribe="missing").load().collect()
    assert CANARY not in repr(refused.value) + str(refused.value) + str(refused.getrepr())


def test_a_lake_is_filled_from_a_secured_broker_and_keeps_no_secret(
    broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    """Security scenario 56. Driver and tasks of a load log in."""
    broker.create_topic("watched")
    with Admin(broker.bootstrap, **broker.client_security("alice")) as admin:
        admin.alter_group_offsets("watcher", {("watched", 0): 7})
    options = pasted(broker)
    lake = Lake(tmp_path)
    with lake.writing():
        source = SourceCluster(bootstrap=options.pop("kafka.bootstrap.servers"), options=options)
        landed = land(spark, lake, source)
    committed = lake.read(spark, schemas.RECORDS).where("group_id = 'watcher'").select("topic", "committed")
    assert committed.collect() == [("watched", 7)]
    stored = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert CANARY not in repr(landed) + stored


def test_the_archive_lands_the_records_of_a_secured_broker(
    broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    """Security scenario 56. The archive is a member of its group on a secured broker."""
    send(broker, "archived")
    security = {
        name.removeprefix("kafka."): value
        for name, value in pasted(broker).items()
        if name != "kafka.bootstrap.servers"
    }
    options = ArchiveOptions(
        bootstrap=broker.bootstrap,
        topics="archived",
        to=tmp_path,
        group="archive",
        once=True,
        security=security,
    )
    events: list[Any] = []
    archive(options, events.append, threading.Event(), spark)
    columns = [read_columns(path, ("value",)) for path in (tmp_path / "archived").glob("date=*/*.parquet")]
    values = [int(value) for each in columns for value in each.column(0).to_pylist()]
    assert sorted(values) == list(range(RECORDS))
    stored = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert CANARY not in repr(options) + repr(events) + stored
