"""References to the contract in docs/spec lead to sections that exist.

Outside docs/spec a reference is the name of a text and numbers of its headings: "classic-groups 3.5, 3.7".
Inside, "§3.5" is a section of the same text, and "offsets-and-log §10" one of another.
"""

import re
from pathlib import Path

import pytest
from tests.docs.test_house_rules import ROOT, tracked

SPEC = ROOT / "docs" / "spec"
TEXTS = sorted(path.stem for path in SPEC.glob("*.md") if path.stem != "README")
NUMBER = r"\d+(?:\.\d+)*"
OUTSIDE = re.compile(
    rf"\b({'|'.join(TEXTS)})(?: |\n *(?:# )?)({NUMBER}(?:(?:,| and| to)\s+{NUMBER}(?![\w.]))*)"
)
INSIDE = re.compile(rf"(?:\b({'|'.join(TEXTS)})(?:\.md)?`? )?§({NUMBER})")


def sections(text: str) -> set[str]:
    found = re.findall(rf"^#+ ({NUMBER})\.? ", (SPEC / f"{text}.md").read_text(), re.MULTILINE)
    return set(found)


def readable(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def test_every_reference_from_code_tests_and_pages_is_a_heading() -> None:
    known = {text: sections(text) for text in TEXTS}
    seen, broken = 0, []
    for path in tracked("*"):
        if SPEC in path.parents or path.suffix == ".lock":
            continue
        for text, numbers in OUTSIDE.findall(readable(path)):
            for number in re.findall(NUMBER, numbers):
                seen += 1
                if number not in known[text]:
                    broken.append(f"{path.relative_to(ROOT)}: {text} {number}")
    assert not broken
    assert seen > 100


def test_a_reference_names_its_text() -> None:
    marked = [path for path in tracked("*") if SPEC not in path.parents and "§" in readable(path)]
    assert [str(path.relative_to(ROOT)) for path in marked if path != Path(__file__)] == []


@pytest.mark.parametrize("text", TEXTS)
def test_references_inside_the_contract_are_headings(text: str) -> None:
    found = INSIDE.findall((SPEC / f"{text}.md").read_text())
    broken = [
        f"{other or text} §{number}" for other, number in found if number not in sections(other or text)
    ]
    assert not broken


@pytest.mark.parametrize("text", TEXTS)
def test_the_index_of_the_contract_lists_every_text(text: str) -> None:
    assert f"({text}.md)" in (SPEC / "README.md").read_text()
