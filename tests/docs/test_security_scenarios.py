"""Every scenario and trap of security 9 and 10 has a test that claims it by its number, or says where it is.

A docstring claims with a line that begins ``Security scenario 5.``, ``Security scenarios 5, 6.`` or
``Security trap 5.``. The scripts that run on Apache Kafka and on Kohort claim as tests do.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ON_BOTH = "tests/interop/scripts/secured"  # their scripts run on Kafka, too
SPECIFICATION = TESTS.parent / "docs" / "spec" / "security.md"

SCENARIOS_ELSEWHERE = {63: "benchmarks/doors.py"}
TRAPS_ELSEWHERE = {
    4: "src/kohort/broker/listening.py",  # handshakes are counted at the accept; scenario 60 tests it
    12: "docs/differences-from-kafka.md",
    14: "tests/unit/security/test_scram.py",
    15: "src/kohort/broker/sasl_mechanisms.py",  # scenario 32 logs in with PLAIN by a credential of SCRAM
    19: "src/kohort/testing/broker.py",  # a note, not a rule
}


@cache
def claims(word: str) -> dict[int, set[str]]:
    """The files that claim a number with this word."""
    found: dict[int, set[str]] = {}
    line = re.compile(rf"^ *Security {word}s? (\d+(?:, \d+)*)\. ", re.MULTILINE)
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS.parent).as_posix()
        if not (path.name.startswith("test_") or name.startswith(ON_BOTH)):
            continue
        text = path.read_text(encoding="utf-8")
        if f"Security {word}" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for numbers in line.findall(ast.get_docstring(node) or ""):
                    for number in numbers.split(", "):
                        found.setdefault(int(number), set()).add(name)
    return found


@cache
def levels() -> dict[int, str]:
    """The level of each scenario in the specification: U, S, I or O."""
    section = SPECIFICATION.read_text(encoding="utf-8").partition("## 9. Proof")[2].partition("## 10.")[0]
    return {int(number): level for number, level in re.findall(r"\| (\d+) ([USIO]) \|", section)}


def test_the_specification_has_63_scenarios_and_19_traps() -> None:
    assert sorted(levels()) == list(range(1, 64))
    traps = SPECIFICATION.read_text(encoding="utf-8").partition("## 10. Traps")[2]
    assert [int(number) for number in re.findall(r"^(\d+)\. ", traps, re.MULTILINE)] == list(range(1, 20))


@pytest.mark.parametrize(
    ("word", "last", "elsewhere"), [("scenario", 63, SCENARIOS_ELSEWHERE), ("trap", 19, TRAPS_ELSEWHERE)]
)
def test_each_has_a_test_or_a_place(word: str, last: int, elsewhere: dict[int, str]) -> None:
    claimed = claims(word)
    assert set(range(1, last + 1)) - claimed.keys() - elsewhere.keys() == set()
    assert claimed.keys() <= set(range(1, last + 1))
    assert claimed.keys() & elsewhere.keys() == set()


def test_what_is_compared_with_kafka_is_compared_with_kafka() -> None:
    oracle = [number for number, level in levels().items() if level == "O"]
    lacking = [
        number
        for number in oracle
        if not any(file.startswith("tests/interop/") for file in claims("scenario")[number])
    ]
    assert lacking == []


@pytest.mark.parametrize("place", sorted({*SCENARIOS_ELSEWHERE.values(), *TRAPS_ELSEWHERE.values()}))
def test_a_file_that_is_named_exists(place: str) -> None:
    assert (TESTS.parent / place).is_file()
