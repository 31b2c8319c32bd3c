"""An ordinary consumer, written with kafka-python. Nothing in it knows of Kohort, or of the others.

    python with_kafka_python.py BOOTSTRAP TOPIC GROUP NAME SESSION_MS

What it has processed it tells as lines of JSON, [partition, offset, order]; offsets are committed by the
library, once a second and before partitions are given up. SIGTERM lets it leave the group; the end of its
standard input ends it at once.
"""

import json
import os
import signal
import sys
import threading
from contextlib import closing
from typing import Any

import kafka


def end_with_the_parent() -> None:
    sys.stdin.read()  # nothing comes, until the other end is gone
    os._exit(1)


def main(bootstrap: str, topic: str, group: str, name: str, session_ms: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    consumer: Any = kafka.KafkaConsumer(  # type: ignore[no-untyped-call]  # kafka-python has no types
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=name,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        session_timeout_ms=int(session_ms),
        heartbeat_interval_ms=500,
    )
    with closing(consumer):
        while not stopping.is_set():
            # Not less than a second: kafka-python drops the answer to a join that comes between two polls.
            for records in consumer.poll(timeout_ms=1_000).values():
                done = [
                    [record.partition, record.offset, json.loads(record.value)["order"]] for record in records
                ]
                print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
