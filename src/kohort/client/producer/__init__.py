"""The producer: records into topics of Kohort or Apache Kafka, in batches, in order, each one once.

``AsyncProducer`` for programs with an event loop, ``Producer`` for those without.
"""

from kohort.client.errors import (
    BufferFullError,
    DeliveryTimeoutError,
    DoubtfulDeliveryError,
    ProducerClosedError,
    RecordTooLargeError,
    WaitInCallbackError,
)
from kohort.client.producer.async_producer import AsyncProducer
from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.settings import ProducerSettings
from kohort.client.producer.sync_producer import Producer, SentRecord

__all__ = [
    "AsyncProducer",
    "BufferFullError",
    "DeliveryTimeoutError",
    "DoubtfulDeliveryError",
    "Producer",
    "ProducerClosedError",
    "ProducerSettings",
    "RecordMetadata",
    "RecordTooLargeError",
    "SentRecord",
    "WaitInCallbackError",
]
