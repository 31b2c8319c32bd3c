"""Rules about the repository that a machine can check."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("src", "examples", "tools", "benchmarks")
MOST_LINES = 500  # a file is one idea; from 400 lines on look twice


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of files to look at")
    return [ROOT / name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]


def test_no_python_file_is_too_long_to_be_one_idea() -> None:
    generated = ROOT / "src" / "kohort" / "wire" / "messages"
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked("*.py")
        if path.parent != generated and (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long


def test_no_file_names_a_place_on_a_machine_or_a_package_registry() -> None:
    forbidden = re.compile(
        # Written so that this line is not one of its own findings.
        r"(?<![\w./-])/(?:work|root|farm)/|index[-]url|/sim[p]le/|\"resolved\": *\"http|registry *= *\"?http"
    )
    found = []
    for path in tracked("*"):
        if path == Path(__file__) or path.suffix in {".png", ".jar"}:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]
    assert not found


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in (path for folder in ("src", "examples", "tools") for path in tracked(f"{folder}/*.py")):
        if path.parent.name == "messages" or path.parent.name.startswith("pyspark_"):
            continue  # the protocol's own names; the one that Spark looks for
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


UNSEARCHABLE = re.compile(
    r"^ *class (_*(?:Place|Terms?|Wish|Told|Asked|Known|Way|Part|Home|Sight"
    r"|Aside|Doubt|Found|Later|Led|Look|Means|Past|Stretch|Then|Turn)s?)\b",
    re.MULTILINE,
)
RIDDLES = re.compile(r"(?<![a-z])(?:nobody|whoever|somebody|anew|told)(?![a-z])", re.IGNORECASE)


def test_a_class_name_can_be_searched_for() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for path in tracked("*.py")
        for match in UNSEARCHABLE.finditer(path.read_text())
    ]
    assert not found


def test_code_and_pages_are_plain_english() -> None:
    code = [path for folder in PROGRAMS for path in tracked(f"{folder}/*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in [*code, *tracked("*.md")]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := RIDDLES.search(re.sub(r"`[^`]*`", "", line)))  # names of tests are not prose
    ]
    assert not found


def test_tests_do_not_sleep_to_wait_for_something() -> None:
    sleeping = re.compile(r"\b(?:time|asyncio)\.sleep\((?!0\))")  # asyncio.sleep(0) only gives way
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked("tests/*.py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if sleeping.search(line)
    ]
    assert not found


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    missing = [path.name for path in folder.glob("0*.md") if path.name not in index]
    assert not missing


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text()
    indexed = ("decisions", "spec")  # these have indexes of their own
    pages = [page for page in docs.rglob("*.md") if page.parent.name not in indexed and page.parent != docs]
    pages += [docs / "differences-from-kafka.md", *(docs / name / "README.md" for name in indexed)]
    assert [page.name for page in pages if f"]({page.relative_to(docs)})" not in index] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in tracked("*.md"):
        prose = re.sub(r"`[^`\n]+`", "", page.read_text())
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken
