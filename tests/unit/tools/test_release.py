"""``make release``: news become a section of the changelog, the one version is set, and a tag is made."""

import subprocess
from pathlib import Path

import pytest
from tools.release import VERSION, ReleaseError, release

ROOT = Path(__file__).parents[3]


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    for name in ("src/kohort/__init__.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "src/kohort/__init__.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/groups.fixed.md").write_text("A group is\nfixed.\n")
    (tmp_path / "changes/cli-topics.added.md").write_text("Topics.\n")
    (tmp_path / "changes/cli.added.md").write_text("Commands.\n")
    (tmp_path / "changes/any.added.md").write_text("More.\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def test_a_release_gathers_the_news_sets_the_version_and_tags(checkout: Path) -> None:
    assert release(checkout, "0.2.0", "2026-01-02") == "v0.2.0"
    assert (
        "gathered here at a release.\n\n"
        "## 0.2.0 - 2026-01-02\n\n### Added\n\n#### Command line\n- Commands.\n- Topics.\n\n"
        "#### Other\n- More.\n\n"
        "### Fixed\n\n#### Groups\n- A group is fixed.\n"
    ) in (checkout / "CHANGELOG.md").read_text()
    assert (checkout / "src/kohort/__init__.py").read_text() == '__version__ = "0.2.0"\n'
    assert git(checkout, "ls-files", "changes") == ""
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "rev-parse", "v0.2.0^{commit}") == git(checkout, "rev-parse", "HEAD")


def test_the_next_release_stands_above_the_last(checkout: Path) -> None:
    release(checkout, "0.2.0", "2026-01-02")
    (checkout / "changes").mkdir(exist_ok=True)
    (checkout / "changes/more.changed.md").write_text("More.\n")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "more")
    release(checkout, "0.10.0", "2026-02-03")
    text = (checkout / "CHANGELOG.md").read_text()
    assert text.index("## Unreleased") < text.index("## 0.10.0") < text.index("## 0.2.0")


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "0.2", "v0.2.0", ""])
def test_a_version_that_is_not_newer_is_refused(checkout: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match=r"newer than 0\.1\.0"):
        release(checkout, version, "2026-01-02")


def test_work_that_is_not_committed_is_refused(checkout: Path) -> None:
    (checkout / "changes/new.added.md").write_text("New.\n")
    with pytest.raises(ReleaseError, match="not committed"):
        release(checkout, "0.2.0", "2026-01-02")


def test_news_of_an_unknown_kind_are_refused(checkout: Path) -> None:
    git(checkout, "mv", "changes/cli-topics.added.md", "changes/cli-topics.new.md")
    git(checkout, "commit", "--quiet", "--message", "renamed")
    with pytest.raises(ReleaseError, match=r"topics\.new\.md"):
        release(checkout, "0.2.0", "2026-01-02")


def test_the_version_of_this_package_can_be_set() -> None:
    assert VERSION.search((ROOT / "src/kohort/__init__.py").read_text())


def test_the_news_of_this_repository_can_be_gathered() -> None:
    kinds = {path.name.split(".")[1] for path in (ROOT / "changes").glob("*")}
    assert kinds <= {"added", "changed", "fixed", "removed"}
