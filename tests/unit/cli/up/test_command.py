"""``kohort up``: services start in order, are shown, and stop in reverse."""

import io
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from kohort.cli.running import on_loop
from kohort.cli.up.command import run_services, show_suggestions
from kohort.cli.up.services import BrokerService, Row, UpService, first_free_port
from kohort.model.errors import KohortError
from kohort.testing.ports import HeldPort


class FakeService:
    """A service that notes what happens to it."""

    def __init__(self, name: str, story: list[str], *, last: bool = False, fails: bool = False) -> None:
        self._name = name
        self._story = story
        self._last = last
        self._fails = fails

    async def start(self) -> list[Row]:
        if self._fails:
            raise KohortError(f"{self._name} does not start")
        self._story.append(f"start {self._name}")
        if self._last:
            os.kill(os.getpid(), signal.SIGTERM)
        return [Row(self._name, "somewhere")]

    async def stop(self) -> None:
        self._story.append(f"stop {self._name}")

    def suggestions(self) -> list[str]:
        return [f"try {self._name}:", "  like this"]


def test_parts_start_in_order_and_stop_in_reverse(capsys: pytest.CaptureFixture[str]) -> None:
    story: list[str] = []
    services: list[UpService] = [FakeService("broker", story), FakeService("web", story, last=True)]
    assert on_loop(run_services(services, moved=True)) == 0
    assert story == ["start broker", "start web", "stop web", "stop broker"]
    said = capsys.readouterr()
    assert said.out == (
        "kohort is up\n  broker  somewhere\n  web     somewhere\n\n"
        "try broker:\n  like this\ntry web:\n  like this\n"
    )
    assert said.err == "port 9092 is taken: using the next free one\nstopping …\n"


def test_when_it_has_stopped_it_says_where_the_data_is_and_how_to_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kept(FakeService):
        async def start(self) -> list[Row]:
            (row,) = await super().start()
            never_made = Row("lake", "there", str(tmp_path / "lake"), "kohort lake query")
            return [row._replace(kept=str(tmp_path), query="kohort data check"), never_made]

    on_loop(run_services([FakeService("broker", []), Kept("data", [], last=True)], moved=False))
    assert capsys.readouterr().err.splitlines() == [
        "stopping …",
        f"data kept in {tmp_path}",
        "  kohort data check",
        "the same command goes on from there",
    ]


def test_when_a_part_does_not_start_those_before_it_are_stopped() -> None:
    story: list[str] = []
    services: list[UpService] = [FakeService("broker", story), FakeService("web", story, fails=True)]
    with pytest.raises(KohortError, match="web does not start"):
        on_loop(run_services(services, moved=False))
    assert story == ["start broker", "stop broker"]


def test_on_a_terminal_what_to_try_has_no_edges_and_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    show_suggestions(["Try:", "  kohort topics list [x]"])
    assert "\n  kohort topics list [x]\n" in terminal.getvalue()


def test_the_first_port_is_taken_if_it_is_free_and_else_the_next() -> None:
    with HeldPort() as port:
        with socket.create_server(("127.0.0.1", port.number)):
            assert first_free_port("127.0.0.1", port.number) != port.number
        assert first_free_port("127.0.0.1", port.number) == port.number


def test_when_no_port_can_be_had_any_will_do() -> None:
    assert first_free_port("192.0.2.1", 9092) == 0  # an address of nobody: nothing can be bound there


@pytest.mark.parametrize(("port", "exported"), [(9092, False), (9093, True)])
def test_suggestions_name_the_address_unless_it_is_the_default(port: int, exported: bool) -> None:
    lines = BrokerService("127.0.0.1", port, None).suggestions()
    assert any(f"export KOHORT_BOOTSTRAP=127.0.0.1:{port}" in line for line in lines) is exported
    assert any(f'"bootstrap.servers": "127.0.0.1:{port}"' in line for line in lines)
