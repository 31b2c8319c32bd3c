"""librdkafka as a peer: the step "group" of the command line that all client programs share.

LIBRDKAFKA BOOTSTRAP group topic=… group=… protocol=consumer
"""

import json
import os
import sys
import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

REFUSED = (KafkaError.STALE_MEMBER_EPOCH, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION)


def emit(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def names(partitions: list[TopicPartition]) -> list[str]:
    return sorted(f"{each.topic}-{each.partition}" for each in partitions)


def listen(stopped: threading.Event) -> None:
    if sys.stdin.readline().strip() == "die":
        os._exit(0)
    stopped.set()


def commit(consumer: Consumer) -> None:
    try:
        offsets = consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in REFUSED:
            raise
        return  # the next commit covers it
    assert offsets is not None
    emit("committed", offsets={f"{each.topic}-{each.partition}": each.offset for each in offsets})


def main(bootstrap: str, steps: str, **options: str) -> None:
    assert steps == "group", steps
    stopped = threading.Event()
    threading.Thread(target=listen, args=(stopped,), daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": options["group"],
            "group.protocol": options.get("protocol", "classic"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(
        options["topic"].split("+"),
        on_assign=lambda _, partitions: emit("assigned", partitions=names(partitions)),
        on_revoke=lambda _, partitions: emit("revoked", partitions=names(partitions)),
        on_lost=lambda _, partitions: emit("lost", partitions=names(partitions)),
    )
    while not stopped.is_set():
        records = consumer.consume(500, timeout=0.1)
        for record in records:
            if (error := record.error()) is not None:
                raise KafkaException(error)
            value = record.value()
            assert value is not None
            emit("record", partition=record.partition(), offset=record.offset(), value=value.decode())
        if records:
            commit(consumer)
    emit("leaving")
    consumer.close()
    emit("closed")
    emit("done")


try:
    main(*sys.argv[1:3], **dict(pair.split("=", 1) for pair in sys.argv[3:]))
except Exception as error:
    emit("error", message=repr(error))
    sys.exit(1)
