"""Kohort: Kafka's consumer-group system as one Python package.

``kohort.Producer``, ``kohort.Consumer`` and ``kohort.Admin``, and their forms for programs with an event loop
(``kohort.AsyncProducer`` …), talk to Kohort and to Apache Kafka alike. They, and what they take, return and
raise, are imported when first asked for.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.client.admin import Admin, AsyncAdmin
    from kohort.client.admin.results import NewTopic
    from kohort.client.consumer import AsyncConsumer, Consumer
    from kohort.client.errors import (
        AuthenticationError,
        AuthorizationError,
        BrokerError,
        CommitFailedError,
        ConcurrentUseError,
        ConsumerClosedError,
        NoBrokerError,
        RebalanceInProgressError,
        TlsError,
        UnknownTopicError,
        WakeupError,
    )
    from kohort.client.fetching.chunk import BadRecordError, ConsumerRecord
    from kohort.client.producer import (
        AsyncProducer,
        BufferFullError,
        DeliveryTimeoutError,
        DoubtfulDeliveryError,
        Producer,
        ProducerClosedError,
        RecordMetadata,
        RecordTooLargeError,
        SentRecord,
    )
    from kohort.client.subscription import OffsetAndMetadata, SubscriptionPattern
    from kohort.model.errors import KohortError
    from kohort.model.topics import TopicPartition
    from kohort.security.secret import Secret

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AuthenticationError",
    "AuthorizationError",
    "BadRecordError",
    "BrokerError",
    "BufferFullError",
    "CommitFailedError",
    "ConcurrentUseError",
    "Consumer",
    "ConsumerClosedError",
    "ConsumerRecord",
    "DeliveryTimeoutError",
    "DoubtfulDeliveryError",
    "KohortError",
    "NewTopic",
    "NoBrokerError",
    "OffsetAndMetadata",
    "Producer",
    "ProducerClosedError",
    "RebalanceInProgressError",
    "RecordMetadata",
    "RecordTooLargeError",
    "Secret",
    "SentRecord",
    "SubscriptionPattern",
    "TlsError",
    "TopicPartition",
    "UnknownTopicError",
    "WakeupError",
]


def import_on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A ``__getattr__`` for ``package`` that imports names from the modules they live in, when asked for.

    No submodule of the package may have one of these names: importing it would take the name's place.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


_HOMES = {
    "kohort.client.admin": ["Admin", "AsyncAdmin"],
    "kohort.client.consumer": ["AsyncConsumer", "Consumer"],
    "kohort.client.errors": [
        "AuthenticationError",
        "AuthorizationError",
        "BrokerError",
        "CommitFailedError",
        "ConcurrentUseError",
        "ConsumerClosedError",
        "NoBrokerError",
        "RebalanceInProgressError",
        "TlsError",
        "UnknownTopicError",
        "WakeupError",
    ],
    "kohort.client.fetching.chunk": ["BadRecordError", "ConsumerRecord"],
    "kohort.client.producer": [
        "AsyncProducer",
        "BufferFullError",
        "DeliveryTimeoutError",
        "DoubtfulDeliveryError",
        "Producer",
        "ProducerClosedError",
        "RecordMetadata",
        "RecordTooLargeError",
        "SentRecord",
        "SubscriptionPattern",
    ],
    "kohort.client.admin.results": ["NewTopic"],
    "kohort.client.subscription": ["OffsetAndMetadata", "SubscriptionPattern"],
    "kohort.model.errors": ["KohortError"],
    "kohort.model.topics": ["TopicPartition"],
    "kohort.security.secret": ["Secret"],
}

__getattr__ = import_on_demand(__name__, {name: home for home, names in _HOMES.items() for name in names})
