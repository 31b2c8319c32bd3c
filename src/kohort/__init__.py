"""Kohort: Kafka's consumer-group system as one Python package.

``kohort.Producer``, ``kohort.AsyncProducer``, ``kohort.Consumer``, ``kohort.AsyncConsumer`` and
``kohort.Admin`` talk to Kohort and to Apache Kafka alike; they are imported when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.client.admin import Admin
    from kohort.client.consumer import AsyncConsumer, Consumer
    from kohort.client.producer import AsyncProducer, Producer

__version__ = "0.1.0"

__all__ = ["Admin", "AsyncConsumer", "AsyncProducer", "Consumer", "Producer"]

_HOMES = {
    "Admin": "kohort.client.admin",
    "AsyncConsumer": "kohort.client.consumer",
    "AsyncProducer": "kohort.client.producer",
    "Consumer": "kohort.client.consumer",
    "Producer": "kohort.client.producer",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
