"""How long until a broker can be used: as a process, and inside a test."""

import subprocess
import sys
import time

from benchmarks.targets import kohort

_IN_PROCESS = """
import time
import kohort.testing.broker
started = time.perf_counter()
with kohort.testing.broker.Broker():
    print(time.perf_counter() - started)
"""


def process_listening() -> float:
    """Milliseconds from the start of ``kohort serve`` to its listening line."""
    started = time.perf_counter()
    with kohort():
        return 1_000 * (time.perf_counter() - started)


def python_itself() -> float:
    """Milliseconds of an interpreter that imports asyncio and does nothing."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import asyncio"], check=True)
    return 1_000 * (time.perf_counter() - started)


def in_process() -> float:
    """Milliseconds from ``Broker()`` to a broker that listens, the import left out."""
    done = subprocess.run([sys.executable, "-c", _IN_PROCESS], check=True, capture_output=True, text=True)
    return 1_000 * float(done.stdout)


def librdkafka_mock() -> float:
    """Milliseconds of librdkafka's mock cluster from nothing to a client that sees its broker."""
    script = (
        "import time; from confluent_kafka.admin import AdminClient; t = time.perf_counter();"
        " AdminClient({'test.mock.num.brokers': 1}).list_topics(timeout=10); print(time.perf_counter() - t)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return 1_000 * float(done.stdout)
