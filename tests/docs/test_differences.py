"""The list of differences is a list of tests, and they exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "differences-from-kafka.md").read_text())


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_the_test_of_a_difference_exists(file: str, test: str) -> None:
    path = ROOT / file
    assert path.exists(), f"there is no {file}"
    assert re.search(rf"^\s*(?:async )?def {test}\(", path.read_text(), re.MULTILINE), f"{file} has no {test}"


def test_every_row_names_a_test() -> None:
    page = (ROOT / "docs" / "differences-from-kafka.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) == len(NAMED)
