"""The data source that Spark finds, and what it chooses."""

import json
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from kohort.spark.batch import BatchReader
from kohort.spark.errors import OptionError
from kohort.spark.pruning import PruningReader
from kohort.spark.source import source_options
from kohort.spark.stream import StreamReader
from pyspark_kohort import DefaultSource

BASIC = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}
TWO = StructType([StructField("offset", LongType()), StructField("key", BinaryType())])


def test_the_columns_are_those_of_sparks_connector() -> None:
    assert DefaultSource(BASIC).schema() == (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "timestampType int"
    )


def test_headers_come_last() -> None:
    schema = DefaultSource(BASIC | {"includeHeaders": "true"}).schema()
    assert schema.endswith("timestampType int, headers array<struct<key:string,value:binary>>")


@pytest.mark.parametrize(
    "wrong", [{"assign": '{"a":[0]}'}, {"startingOffsets": "soon"}, {"kafka.ssl.key.password": "x"}]
)
def test_a_wrong_option_is_refused_when_spark_asks_for_the_columns(wrong: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        DefaultSource(BASIC | wrong).schema()


def test_it_is_found_by_the_name_of_its_package() -> None:
    assert DefaultSource.name() == "kohort"


def test_a_batch_query_gets_a_reader_of_ranges() -> None:
    assert type(DefaultSource(BASIC).reader(TWO)) is BatchReader


def test_filters_are_taken_only_if_they_are_asked_for() -> None:
    assert type(DefaultSource(BASIC | {"kohort.push.filters": "true"}).reader(TWO)) is PruningReader


def test_a_stream_without_membership_chooses_its_own_partitions() -> None:
    assert type(DefaultSource(BASIC).streamReader(TWO)) is StreamReader
    plain_commits = BASIC | {"kafka.group.id": "billing", "commit": "group"}
    assert type(DefaultSource(plain_commits).streamReader(TWO)) is StreamReader


def test_a_stream_with_an_end_is_refused_when_it_is_first_asked() -> None:
    refused = DefaultSource(BASIC | {"endingOffsets": "latest"}).streamReader(TWO)
    reader = pickle.loads(pickle.dumps(refused))
    asked = (reader.initialOffset, lambda: reader.latestOffset({}, None), lambda: reader.partitions({}, {}))
    for ask in asked:
        with pytest.raises(OptionError, match=r"endingOffsets cannot be set here \(a stream has no end\)"):
            ask()


def test_a_schema_chooses_columns_and_their_order() -> None:
    assert source_options(BASIC, TWO, streaming=False).columns == ("offset", "key")


@pytest.mark.parametrize(
    "field",
    [
        StructField("key", StringType()),
        StructField("keys", BinaryType()),
        StructField("key", BinaryType(), nullable=False),
    ],
)
def test_a_schema_can_only_choose(field: StructField) -> None:
    with pytest.raises(OptionError, match="there is no column key"):
        source_options(BASIC, StructType([field]), streaming=False)


def test_headers_in_a_schema_need_the_option() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    schema = StructType([StructField("headers", ArrayType(header))])
    with pytest.raises(OptionError, match="includeHeaders"):
        source_options(BASIC, schema, streaming=False)
    assert source_options(BASIC | {"includeHeaders": "true"}, schema, streaming=True).columns == ("headers",)


@pytest.mark.slow
def test_finding_it_loads_neither_arrow_nor_pandas_nor_our_client() -> None:
    """Spark imports it in four processes."""
    code = (
        "import json, sys; import pyspark.sql.datasource; before = set(sys.modules); import pyspark_kohort;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    heavy = ("numpy", "pyarrow", "pandas", "asyncio", "kohort.client", "kohort.wire", "kohort.records")
    assert [name for name in loaded if name.startswith(heavy)] == []
