"""Makes a release: ``python tools/release.py 0.2.0`` in a clean checkout.

Gathers ``changes/`` into a section of CHANGELOG.md, sets the version (it stands in ``src/kohort/__init__.py``
and nowhere else), commits and tags. Nothing is pushed or uploaded: that is for a person to do.
"""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}
# By the first word of a file's name, in the order of the changelog.
AREAS = {
    "broker": "Broker",
    "groups": "Groups",
    "cluster": "Several nodes",
    "security": "Security",
    "client": "Clients",
    "spark": "Spark",
    "archive": "Archive",
    "lake": "Group lake",
    "cli": "Command line",
    "testing": "Testing",
    "package": "Package and documentation",
}
_OTHER = "Other"
VERSION = re.compile(r'^__version__ = "(\d+\.\d+\.\d+)"$', re.MULTILINE)
_UNRELEASED = "See `changes/`: one file for each piece of news, gathered here at a release.\n"


class ReleaseError(Exception):
    """Why a release cannot be made."""


def section(version: str, day: str, news: dict[str, str]) -> str:
    """The changelog of a version, from the names and texts of the files in ``changes/``."""
    lines = [f"## {version} - {day}"]
    for kind, title in KINDS.items():
        by_area: dict[str, list[str]] = {area: [] for area in (*AREAS.values(), _OTHER)}
        for name, text in sorted(news.items(), key=_topic):  # "broker" comes before "broker-data"
            if name.split(".")[-2] == kind:
                area = AREAS.get(re.split(r"[-.]", name)[0], _OTHER)
                by_area[area].append(" ".join(text.split()))
        if any(by_area.values()):
            lines += ["", f"### {title}"]
        for area, texts in by_area.items():
            if texts:
                lines += ["", f"#### {area}", *(f"- {text}" for text in texts)]
    return "\n".join(lines) + "\n"


def _topic(news: tuple[str, str]) -> str:
    return news[0].partition(".")[0]


def release(root: Path, version: str, day: str) -> str:
    """Make the commit and the tag; the name of the tag."""
    init, changelog = root / "src" / "kohort" / "__init__.py", root / "CHANGELOG.md"
    current = VERSION.search(init.read_text())
    news = {path.name: path.read_text() for path in sorted((root / "changes").glob("*.md"))}
    unknown = [name for name in news if len(parts := name.split(".")) != 3 or parts[1] not in KINDS]
    if current is None:
        raise ReleaseError(f'{init} has no line __version__ = "X.Y.Z"')
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _order(version) <= _order(current[1]):
        raise ReleaseError(f"give a version X.Y.Z that is newer than {current[1]}: make release VERSION=…")
    if _git(root, "status", "--porcelain"):
        raise ReleaseError("the checkout has changes that are not committed: commit or remove them first")
    if unknown:
        raise ReleaseError(f"changes/{unknown[0]} is not named TOPIC.KIND.md with KIND in {', '.join(KINDS)}")
    if not news:
        raise ReleaseError("changes/ has no news: there is nothing to release")
    text = changelog.read_text()
    if _UNRELEASED not in text:
        raise ReleaseError(f"CHANGELOG.md does not have the line {_UNRELEASED.strip()!r}: nowhere to insert")
    changelog.write_text(text.replace(_UNRELEASED, f"{_UNRELEASED}\n{section(version, day, news)}", 1))
    init.write_text(VERSION.sub(f'__version__ = "{version}"', init.read_text()))
    for name in news:
        (root / "changes" / name).unlink()
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", f"release: {version}")
    _git(root, "tag", "--annotate", f"v{version}", "--message", f"Kohort {version}")
    return f"v{version}"


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make release VERSION=X.Y.Z", file=sys.stderr)
        return 2
    try:
        tag = release(Path(__file__).parent.parent, sys.argv[1], datetime.now(UTC).date().isoformat())
    except ReleaseError as error:
        print(f"release: error: {error}", file=sys.stderr)
        return 1
    print(f"committed and tagged {tag}. Next: make test && make build, then git push --follow-tags")
    return 0


if __name__ == "__main__":
    sys.exit(main())
