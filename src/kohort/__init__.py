"""Kohort: Kafka's consumer-group system as one Python package.

``kohort.Producer``, ``kohort.AsyncProducer``, ``kohort.Consumer``, ``kohort.AsyncConsumer`` and
``kohort.Admin`` talk to Kohort and to Apache Kafka alike; they are imported when first asked for.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.client.admin import Admin
    from kohort.client.consumer import AsyncConsumer, Consumer
    from kohort.client.producer import AsyncProducer, Producer

__version__ = "0.1.0"

__all__ = ["Admin", "AsyncConsumer", "AsyncProducer", "Consumer", "Producer"]


def import_on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A ``__getattr__`` for ``package`` that imports names from the modules they live in, when asked for.

    No submodule of the package may have one of these names: importing it would take the name's place.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


__getattr__ = import_on_demand(
    __name__,
    {
        "Admin": "kohort.client.admin",
        "AsyncConsumer": "kohort.client.consumer",
        "AsyncProducer": "kohort.client.producer",
        "Consumer": "kohort.client.consumer",
        "Producer": "kohort.client.producer",
    },
)
