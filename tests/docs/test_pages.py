"""What README, tutorial and how-tos say to type works as it stands, and prints what they show."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import KINDS, ROOT, Block, Page, all_pages, matches
from tests.docs.reader import follow

PAGES = all_pages()
HERE = [page for page in PAGES if page.to_run and not page.needs_spark and not page.needs_interop]
LEFT_OUT = [block for page in PAGES for block in page.blocks if block.why_not is not None]


@pytest.mark.slow
@pytest.mark.timeout(300)  # a dozen processes, one after the other
@pytest.mark.parametrize("page", HERE, ids=str)
def test_the_blocks_of_a_page_run_in_order_and_print_what_it_shows(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path) > 0


@pytest.mark.parametrize("block", LEFT_OUT, ids=str)
def test_a_block_that_is_not_run_says_why(block: Block) -> None:
    assert block.why_not, f"{block}: a reason is missing"
    pytest.skip(block.why_not)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_block_says_what_it_is(page: Page) -> None:
    assert [str(block) for block in page.blocks if block.kind not in KINDS] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_of_a_page_stands_in_a_block_that_is_looked_at(page: Page) -> None:
    fences = re.findall(r"^ *```", (ROOT / page.name).read_text(), re.MULTILINE)
    seen = sum(1 + (block.shown is not None) for block in page.blocks if not block.hidden)
    assert len(fences) == 2 * seen


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b\nc", "a b\nc\n", True),
        ("a …\nc", "a 17 ms\nc\n", True),
        ("a …\nc", "a\nc\n", False),
        ("a\n…\nc", "a\nb\nb\nc\n", True),
        ("a\n…\nc", "a\nc\n", True),
        ("a", "a\nb\n", False),
        ("a (b)", "a b\n", False),
    ],
)
def test_an_ellipsis_stands_for_what_varies(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
