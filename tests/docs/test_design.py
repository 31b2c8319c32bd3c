"""Pages about the design name modules that exist, in the order that the linter checks."""

import re
from importlib.util import find_spec
from pathlib import Path
from tomllib import loads

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "README.md"


def test_every_module_named_in_the_design_exists() -> None:
    named = set(re.findall(r"`(kohort(?:\.\w+)+)`", PAGE.read_text()))
    assert len(named) > 20
    assert sorted(name for name in named if find_spec(name) is None) == []


def test_the_order_of_packages_in_contributing_is_the_one_that_is_checked() -> None:
    (shown,) = re.findall(r"`(model → .*)`", (ROOT / "CONTRIBUTING.md").read_text())
    checked = loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    assert [set(layer.split(", ")) for layer in shown.split(" → ")] == [
        set(re.findall(r"\w+", layer)) for layer in reversed(checked)
    ]
