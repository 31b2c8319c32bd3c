"""For the tests of applications: an embedded broker, pytest fixtures, bad disks and networks.

``from kohort.testing import Broker`` starts a real broker inside the test's process; every Kafka
client library can talk to it.
"""

from typing import TYPE_CHECKING

from kohort import import_on_demand

if TYPE_CHECKING:
    from kohort.testing.broker import AsyncBroker, Broker
    from kohort.testing.cluster import Cluster
    from kohort.testing.proxy import AsyncProxy, Proxy

__all__ = ["AsyncBroker", "AsyncProxy", "Broker", "Cluster", "Proxy"]

# The pytest plugin lives in this package and is imported by every test run of everybody who has Kohort
# installed: the broker comes with its first use.
__getattr__ = import_on_demand(
    __name__,
    {
        "AsyncBroker": "kohort.testing.broker",
        "AsyncProxy": "kohort.testing.proxy",
        "Broker": "kohort.testing.broker",
        "Cluster": "kohort.testing.cluster",
        "Proxy": "kohort.testing.proxy",
    },
)
