"""The page about writing an assignor says what is true: its examples run, one after the other."""

import re
from pathlib import Path

from kohort.assign.registry import _MEMBERS

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "write-an-assignor.md").read_text()


def test_the_examples_of_the_page_run() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "write-an-assignor.md", "exec"), names)  # the page is ours
    assert "WholeTopics" in names
    assert len(examples) == 3


def test_the_page_names_every_member_of_an_assignor() -> None:
    assert [member for member in _MEMBERS if f"| `{member}" not in PAGE] == []
