"""Our Spark queries on a secured Apache Kafka."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.test_secured_kafka import PASSWORDS, SCRAM, as_user, kafka, made
from tools.peers.kafka_broker import SecuredKafka

from kohort import Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]
FreshName = Callable[[str], str]
__all__ = ["kafka"]  # the fixture


def test_a_query_in_a_group_reads_and_writes_and_shows_no_secret(
    kafka: SecuredKafka, spark: "SparkSession", fresh_name: FreshName, tmp_path: Path
) -> None:
    source, target = made(kafka, fresh_name("spark-in")), made(kafka, fresh_name("spark-out"))
    (tmp_path / "password").write_text(PASSWORDS["admin"])
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": (kafka.certificates / "ca.pem").read_text().replace("\n", " "),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
    }
    in_clear = f'{SCRAM} required username="admin" password="{PASSWORDS["admin"]}";'
    in_file = f'{SCRAM} required username="admin" password="@{tmp_path / "password"}";'
    with Producer(**as_user(kafka)) as producer:
        for number in range(100):
            producer.send(source, b"%d" % number)
    stream = (
        spark.readStream.format("kohort")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .option("kafka.group.id", source)
        .option("kafka.sasl.jaas.config", in_clear)
        .load()
    )
    query = (
        stream.selectExpr("value").writeStream.format("kohort")
        .options(**options, topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .option("kafka.sasl.jaas.config", in_file)
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination(120)
    assert query.exception() is None
    found = (
        spark.read.format("kohort")
        .options(**options, subscribe=target)
        .option("kafka.sasl.jaas.config", in_clear)
        .load()
    )
    assert sorted(int(bytes(row.value)) for row in found.collect()) == list(range(100))
    shown = [
        found._jdf.queryExecution().toString(),  # what explain() prints
        query._jsq.explainInternal(True),
        *(json.dumps(progress, default=str) for progress in query.recentProgress),
        *(
            each.read_text(errors="replace")
            for each in (tmp_path / "checkpoint").rglob("*")
            if each.is_file()
        ),
    ]
    assert not [text for text in shown if "canary" in text]
