"""Every scenario of the specification has its test here, or says where else it is tested.

Every trap of modern groups has a test that claims it, here or elsewhere.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
CLASSIC = range(1, 132)  # classic-groups 12
OFFSETS = range(1, 24)  # offsets-and-log 17, as far as it is about groups and offsets

# Not decided in the core. The tests of these are where the decision is made.
CLASSIC_ELSEWHERE = {
    1: "the broker creates the offsets topic: FindCoordinator",
    2: "the broker encodes FindCoordinator, version by version",
    3: "tests/unit/primitives/test_strings.py: partition_for",
    4: "tests/unit/primitives/test_strings.py: partition_for",
    5: "the broker looks up leaders: FindCoordinator",
    6: "the broker answers key by key: FindCoordinator",
    7: "the broker reads key types: FindCoordinator",
    8: "the broker does not ask the shard: FindCoordinator",
    19: "the broker encodes JoinGroup, version by version",
    110: "tests/unit/records/test_offsets_topic.py: bytes of group records",
    118: "the broker owns partitions by epoch; an Unload it gives to a shard counts",
}
OFFSETS_ELSEWHERE = {
    9: "the broker knows which topics exist; nothing reaches the core",
}
MODERN = range(1, 87)  # modern-groups 18
MODERN_ELSEWHERE = {
    61: "tests/property/assign/server/test_server_assignors.py: equal to the Java classes",
    62: "tests/property/assign/server/test_server_assignors.py: equal to the Java classes",
    63: "tests/property/assign/server/test_server_assignors.py: equal to the Java classes",
    64: "tests/property/assign/server/test_server_assignors.py: equal to the Java classes",
    65: "tests/property/assign/server/test_server_assignors.py: equal to the Java classes",
    71: "TxnOffsetCommit is not served",
}


@cache
def _docstrings(below: Path, word: str) -> list[str]:
    found: list[str] = []
    for path in sorted(below.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if word not in source:
            continue
        tests = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
        found += [ast.get_docstring(test) or "" for test in tests if test.name.startswith("test_")]
    return found


def numbers(word: str, below: Path = HERE) -> set[int]:
    """The scenarios that docstrings claim with this word, at the beginning of a line."""
    claims = re.compile(rf"^ *{word} (\d+)\. ", re.MULTILINE)
    return {int(number) for docstring in _docstrings(below, word) for number in claims.findall(docstring)}


def test_every_trap_of_modern_groups_has_a_test() -> None:
    contract = (TESTS.parent / "docs/spec/modern-groups.md").read_text(encoding="utf-8")
    traps = re.findall(r"^(\d+)\. ", contract.partition("## 19. Traps")[2], re.MULTILINE)
    assert [int(number) for number in traps] == list(range(1, 11))
    assert numbers("Modern trap", TESTS) == set(range(1, 11))


@pytest.mark.parametrize(
    ("word", "all_of_them", "elsewhere"),
    [
        ("Scenario", CLASSIC, CLASSIC_ELSEWHERE),
        ("Offsets scenario", OFFSETS, OFFSETS_ELSEWHERE),
        ("Modern scenario", MODERN, MODERN_ELSEWHERE),
    ],
)
def test_every_scenario_has_a_test(word: str, all_of_them: range, elsewhere: dict[int, str]) -> None:
    missing = set(all_of_them) - numbers(word) - set(elsewhere)
    assert missing == set()


@pytest.mark.parametrize(
    ("word", "all_of_them", "elsewhere"),
    [
        ("Scenario", CLASSIC, CLASSIC_ELSEWHERE),
        ("Offsets scenario", OFFSETS, OFFSETS_ELSEWHERE),
        ("Modern scenario", MODERN, MODERN_ELSEWHERE),
    ],
)
def test_no_test_claims_a_scenario_that_is_not_its_own(
    word: str, all_of_them: range, elsewhere: dict[int, str]
) -> None:
    claimed = numbers(word)
    assert claimed <= set(all_of_them)
    assert claimed & set(elsewhere) == set()


@pytest.mark.parametrize(
    "place", sorted({*CLASSIC_ELSEWHERE.values(), *OFFSETS_ELSEWHERE.values(), *MODERN_ELSEWHERE.values()})
)
def test_a_file_that_is_named_exists(place: str) -> None:
    root = HERE.parents[2]
    for file in re.findall(r"tests/\S+\.py", place):
        assert (root / file).is_file()
    assert place
