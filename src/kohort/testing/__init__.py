"""For the tests of applications: an embedded broker, pytest fixtures, bad disks and networks.

``from kohort.testing import Broker`` starts a real broker inside the test's process; every Kafka
client library can talk to it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.testing.broker import AsyncBroker, Broker
    from kohort.testing.proxy import AsyncProxy, Proxy

__all__ = ["AsyncBroker", "AsyncProxy", "Broker", "Proxy"]


def __getattr__(name: str) -> object:
    # The pytest plugin lives in this package and is imported by every test run of everybody who has
    # Kohort installed: the broker comes with its first use.
    if name in __all__:
        from kohort.testing import broker, proxy

        return getattr(broker if name.endswith("Broker") else proxy, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
