"""The limit of open files."""

import resource

import pytest

from kohort.cli.limits import raise_file_limit
from kohort.cli.serve.run import serve
from kohort.cli.up.services import BrokerService

ENDLESS = resource.RLIM_INFINITY


class System:
    """The limits of a process that does not exist."""

    def __init__(self, soft: int, hard: int, highest: int | None = None) -> None:
        self.limits = (soft, hard)
        self._highest = highest

    def get(self, what: int) -> tuple[int, int]:
        assert what == resource.RLIMIT_NOFILE
        return self.limits

    def set(self, what: int, limits: tuple[int, int]) -> None:
        assert what == resource.RLIMIT_NOFILE
        if self._highest is not None and limits[0] > self._highest:
            raise ValueError("not allowed to raise maximum limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("system", "after"),
    [
        (System(1_024, 524_288), (524_288, 524_288)),
        (System(4_096, 4_096), (4_096, 4_096)),
        (System(256, ENDLESS), (10_240, ENDLESS)),
        (System(20_000, ENDLESS), (20_000, ENDLESS)),
        (System(ENDLESS, ENDLESS), (ENDLESS, ENDLESS)),
        (System(256, 500_000, highest=10_240), (256, 500_000)),
    ],
)
def test_the_limit_is_as_high_as_it_may_be(
    monkeypatch: pytest.MonkeyPatch, system: System, after: tuple[int, int]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", system.get)
    monkeypatch.setattr(resource, "setrlimit", system.set)
    raise_file_limit()
    assert system.limits == after


def test_both_ways_to_run_a_broker_raise_it(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[str] = []
    monkeypatch.setattr("kohort.cli.logs.log_to_stderr", lambda *_: None)
    monkeypatch.setattr("kohort.cli.serve.run.on_loop", lambda work: work.close() or 0)
    monkeypatch.setattr("kohort.cli.serve.run.raise_file_limit", lambda: raised.append("serve"))
    monkeypatch.setattr("kohort.cli.up.services.raise_file_limit", lambda: raised.append("up"))
    assert serve(["--memory"]) == 0
    BrokerService("127.0.0.1", 0, None)
    assert raised == ["serve", "up"]
