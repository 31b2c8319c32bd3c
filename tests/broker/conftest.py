"""A fresh broker for each test, and raw connections to it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.broker.raw import Raw  # noqa: E402 (needs the path above)

from kohort.broker.dispatch import Dispatch  # noqa: E402 (same)
from kohort.testing.broker import Broker  # noqa: E402 (same)

Connect = Callable[[], Raw]


@pytest.fixture(params=["recognised", "read"])
def both_paths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs twice: frames that came before are recognised by their bytes, and every frame is read."""
    if request.param == "read":
        monkeypatch.setattr(Dispatch, "_remember", lambda *_: None)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """An empty broker in memory whose clock stands still; groups form without a delay."""
    with Broker(virtual_time=True, configs={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Makes connections, which end with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Raw(broker.bootstrap))


@pytest.fixture
def raw(connect: Connect) -> Raw:
    """One connection."""
    return connect()


class Restart:
    """A broker on disk; each call stops the one that runs, starts another and connects to it."""

    def __init__(self, data: Path, stack: ExitStack) -> None:
        self._data = data
        self._stack = stack

    def __call__(self) -> Raw:
        self._stack.close()
        self._broker = self._stack.enter_context(Broker(data=self._data, virtual_time=True))
        return self.connect()

    def wait_for_groups(self) -> None:
        """Until everything that is stored of groups has been read."""

        async def ready() -> None:
            await self._broker.server.broker.coordinator.ready()

        self._broker.run(ready())

    def connect(self) -> Raw:
        """Another connection to the broker that runs."""
        return self._stack.enter_context(Raw(self._broker.bootstrap))


@pytest.fixture
def restart(tmp_path: Path) -> Iterator[Restart]:
    """Starts a broker on one directory again and again."""
    with ExitStack() as stack:
        yield Restart(tmp_path, stack)
