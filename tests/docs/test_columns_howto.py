"""The programs of the guide to columns run as they stand, apart from the port."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.client.producer import Producer
from kohort.testing import Broker

GUIDE = (Path(__file__).parents[2] / "docs" / "howto" / "columns.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_programs_of_the_guide_read_three_orders() -> None:
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for value in (b"1 book", b"2 pens", b"3 lamps"):
                producer.send("orders", value=value, partition=0).result(10)
        printed = []
        for program in PROGRAMS:
            done = subprocess.run(
                [sys.executable, "-c", program.replace("localhost:9092", broker.bootstrap)],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    assert printed == ["orders-0 3 b'1 book'\n", "3 [0, 1, 2]\n"]
