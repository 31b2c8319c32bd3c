"""The consumer: ``AsyncConsumer`` on the caller's event loop, ``Consumer`` for everybody else."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.client.consumer.async_consumer import AsyncConsumer
    from kohort.client.consumer.sync_consumer import Consumer

__all__ = ["AsyncConsumer", "Consumer"]


def __getattr__(name: str) -> object:
    # The modules of this package import each other: asking for one must not load all.
    if name == "AsyncConsumer":
        from kohort.client.consumer import async_consumer

        return async_consumer.AsyncConsumer
    if name == "Consumer":
        from kohort.client.consumer import sync_consumer

        return sync_consumer.Consumer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
