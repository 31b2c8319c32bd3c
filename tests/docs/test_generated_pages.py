"""Tables of the documentation are made from the code, and are up to date."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_what_is_generated_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_name_of_the_python_api_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "python-api.md").read_text()
    assert [line for line in page.splitlines() if re.search(r"\|\s*\|$", line)] == []
