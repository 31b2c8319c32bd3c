"""The page about the design names modules that exist."""

import re
from importlib.util import find_spec
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "design" / "README.md"


def test_every_module_named_in_the_design_exists() -> None:
    named = set(re.findall(r"`(kohort(?:\.\w+)+)`", PAGE.read_text()))
    assert len(named) > 20
    assert sorted(name for name in named if find_spec(name) is None) == []
