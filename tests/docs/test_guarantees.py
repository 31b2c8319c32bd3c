"""Every promise names its test, and every limit has the number that the code has."""

import importlib
import re
from pathlib import Path

import pytest

from kohort.broker.configs import BROKER_CONFIGS, TOPIC_CONFIGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
PROMISES, LIMITS = PAGE.split("\n## Limits\n")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PROMISES)
NUMBERS = re.findall(r"^\| .+ \| ([\d,]+) \| `([\w.]+)` \|$", LIMITS, re.MULTILINE)


def rows(text: str) -> list[str]:
    """The rows of all tables, without their headings."""
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [row for table in tables for row in table.splitlines()[2:]]


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_the_test_of_a_promise_exists(file: str, test: str) -> None:
    path = ROOT / file
    assert path.exists(), f"there is no {file}"
    assert re.search(rf"^\s*(?:async )?def {test}\(", path.read_text(), re.MULTILINE), f"{file} has no {test}"


def test_every_promise_names_one_test() -> None:
    assert len(rows(PROMISES)) == len(NAMED) > 0


@pytest.mark.parametrize(("number", "where"), NUMBERS, ids=[where for _, where in NUMBERS])
def test_a_limit_has_the_number_that_the_code_has(number: str, where: str) -> None:
    setting = TOPIC_CONFIGS.get(where) or BROKER_CONFIGS.get(where)
    if setting is not None:
        found = int(setting.default)
    else:
        module, _, name = where.rpartition(".")
        found = getattr(importlib.import_module(module), name)
    assert f"{found:,}" == number


def test_every_limit_names_its_place() -> None:
    assert len(rows(LIMITS)) == len(NUMBERS) > 0
