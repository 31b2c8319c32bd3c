"""What the README says about Spark runs as it stands, apart from the port and the directory."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kohort as clients
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.slow
def test_the_query_of_the_readme_is_a_member_and_its_rows_are_shown(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (program,) = (block for block in blocks if "kohort.spark" in block)
    topic, group = kohort.topic(), kohort.group()
    with clients.Producer(bootstrap_servers=kohort.bootstrap) as producer:
        producer.send(topic, b"3 lamps")
    ours = {"127.0.0.1:9092": kohort.bootstrap, '"orders"': f'"{topic}"', '"billing"': f'"{group}"'}
    for theirs, mine in {**ours, '"billing/': f'"{tmp_path}/'}.items():
        assert theirs in program
        program = program.replace(theirs, mine)

    exec(compile(program, "README.md", "exec"), {})

    assert "3 lamps" in capfd.readouterr().out
    with clients.Consumer(bootstrap_servers=kohort.bootstrap, group_id=group) as consumer:
        committed = consumer.committed((topic, 0))
    assert [found.offset for found in committed.values() if found is not None] == [1]
    assert spark.range(1).count() == 1  # the session is still there for others
