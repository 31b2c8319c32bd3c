"""The page about installation lists what ``pyproject.toml`` declares."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def names(requirements: list[str]) -> set[str]:
    """Distributions, and extras of our own."""
    own = [re.fullmatch(r"kohort\[(.+)\]", one) for one in requirements]
    extras = {name for match in own if match for name in match[1].split(",")}
    others = {re.split(r"[^\w-]", one)[0] for one, match in zip(requirements, own, strict=True) if not match}
    return extras | others


def test_the_table_of_extras_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {"none": project["dependencies"], **project["optional-dependencies"]}
    page = (ROOT / "docs" / "howto" / "install.md").read_text()
    rows = [re.split(r" *\| *", line) for line in page.splitlines() if re.match(r"\| (`\w+`|none) \|", line)]
    listed = {row[1].strip("`"): set(row[2].replace("`", "").split(", ")) for row in rows}
    assert listed == {extra: names(requirements) for extra, requirements in declared.items()}
