"""An ordinary consumer, written with confluent-kafka (librdkafka). It, too, knows nothing of Kohort.

    python with_confluent.py BOOTSTRAP TOPIC GROUP NAME SESSION_MS [consumer]

With ``consumer`` it speaks the new protocol of groups (KIP-848): one more setting; the broker has the times.
What it has processed it tells as lines of JSON, [partition, offset, order]. Only what was reported is stored
for the library to commit, once a second and before partitions are given up. SIGTERM lets it leave the
group; the end of its standard input ends it at once.
"""

import json
import os
import signal
import sys
import threading
from contextlib import closing

from confluent_kafka import Consumer


def end_with_the_parent() -> None:
    sys.stdin.read()  # nothing comes, until the other end is gone
    os._exit(1)


def main(  # noqa: PLR0913  # the command line
    bootstrap: str, topic: str, group: str, name: str, session_ms: str, protocol: str = "classic"
) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    times = {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": 500}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
            "enable.auto.offset.store": False,
            "group.protocol": protocol,
            **(times if protocol == "classic" else {}),
        }
    )
    with closing(consumer):
        consumer.subscribe([topic])
        while not stopping.is_set():
            messages = [message for message in consumer.consume(100, timeout=0.2) if message.error() is None]
            if messages:
                done = [
                    [message.partition(), message.offset(), json.loads(message.value() or b"")["order"]]
                    for message in messages
                ]
                print(json.dumps(done), flush=True)
            for message in messages:
                consumer.store_offsets(message)


if __name__ == "__main__":
    main(*sys.argv[1:])
