"""Pytest fixtures: ``kohort`` (one broker for the run) and ``kohort_broker`` (a fresh one per test).

Nothing heavy is imported until a test asks for a fixture.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kohort.testing.broker import Broker

_numbers = itertools.count(1)


class Kohort:
    """The shared broker, and names that no other test uses."""

    def __init__(self, broker: "Broker", test: str) -> None:
        self.broker = broker
        self._test = "".join(c if c.isalnum() or c in "._-" else "-" for c in test)[:180]

    @property
    def bootstrap(self) -> str:
        """``host:port``, for the ``bootstrap_servers`` setting of any client."""
        return self.broker.bootstrap

    def topic(self, *, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        """Create a topic for this test alone and return its name."""
        name = self._unique("topic")
        self.broker.create_topic(name, partitions=partitions, configs=configs)
        return name

    def group(self) -> str:
        """The id of a group for this test alone."""
        return self._unique("group")

    def _unique(self, what: str) -> str:
        return f"{self._test}.{what}-{next(_numbers)}"


@pytest.fixture(scope="session")
def _kohort_shared_broker() -> Iterator["Broker"]:
    from kohort.testing.broker import Broker

    # Tests write records of any age; they shall not be gone when a run takes longer than five minutes.
    configs = {"group.initial.rebalance.delay.ms": 0, "log.retention.check.interval.ms": 86_400_000}
    with Broker(configs=configs) as broker:
        yield broker


@pytest.fixture
def kohort(_kohort_shared_broker: "Broker", request: pytest.FixtureRequest) -> Kohort:
    """One broker for the whole run; ask it for topics and groups of the test's own."""
    return Kohort(_kohort_shared_broker, request.node.name)


@pytest.fixture
def kohort_broker() -> Iterator["Broker"]:
    """A fresh, empty broker for one test."""
    from kohort.testing.broker import Broker

    with Broker() as broker:
        yield broker
