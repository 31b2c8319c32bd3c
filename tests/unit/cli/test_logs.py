"""What log lines look like."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from kohort.cli.logs import HumanLines, JsonLines, log_to_stderr


def record(*, failed: bool = False) -> logging.LogRecord:
    trace = None
    if failed:
        try:
            raise ValueError("oops")
        except ValueError:
            trace = sys.exc_info()
    made = logging.LogRecord("kohort.server", logging.WARNING, "f.py", 1, "closed %s", ("x",), trace)
    made.created, made.msecs = 1_700_000_000.123, 123.0
    return made


def test_a_line_for_people_has_time_level_and_who_said_it() -> None:
    line = HumanLines().format(record())
    assert line.endswith(".123 WARNING server: closed x")
    assert "\n" not in line


def test_a_name_from_outside_forges_no_line_and_moves_no_cursor() -> None:
    forged = record()
    forged.args = ("CN=a\nb\r\x1b[2J\x9b\u2028\x7fü\té",)
    line = HumanLines().format(forged)
    assert line.endswith("closed CN=a\\nb\\r\\x1b[2J\\x9b\\u2028\\x7fü\té")


def test_a_line_for_machines_is_one_json_object() -> None:
    line = JsonLines().format(record())
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "logger": "kohort.server",
        "message": "closed x",
    }


def test_a_traceback_follows_the_line_or_is_part_of_the_object() -> None:
    assert "ValueError: oops" in HumanLines().format(record(failed=True)).splitlines()[-1]
    assert "ValueError: oops" in json.loads(JsonLines().format(record(failed=True)))["traceback"]


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize(("style", "formatter"), [("human", HumanLines), ("json", JsonLines)])
def test_everything_goes_to_stderr_once(root: logging.Logger, style: str, formatter: type) -> None:
    log_to_stderr(style, "warning")
    log_to_stderr(style, "warning")
    (handler,) = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr
    assert isinstance(handler.formatter, formatter)
    assert root.level == logging.WARNING
