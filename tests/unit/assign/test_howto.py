"""The page about writing an assignor leaves nothing out; tests/docs/test_pages.py runs its examples."""

from pathlib import Path

from kohort.assign.registry import _MEMBERS

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "write-an-assignor.md").read_text()


def test_the_page_names_every_member_of_an_assignor() -> None:
    assert [member for member in _MEMBERS if f"| `{member}" not in PAGE] == []
