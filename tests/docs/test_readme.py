"""The README, the Makefile and CI name the same commands; test_pages.py runs the rest of the page."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_first_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"\bmake \w+$", script, re.MULTILINE) == ["make test", "make interop"]


def test_every_target_of_the_makefile_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:"))
    explained = set(re.findall(r"^(\w+):.*## ", makefile, re.MULTILINE))
    defined = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    assert set(phony.removeprefix(".PHONY:").split()) <= defined
    assert defined <= explained
