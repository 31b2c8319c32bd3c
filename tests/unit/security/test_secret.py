"""Secrets: where they come from, and that nothing shows them."""

import pickle
from pathlib import Path

import pytest

from kohort.security.secret import Secret, SecretError

CANARY = "canary-7c1f"


@pytest.mark.parametrize("text", [CANARY, f"@@{CANARY}"])
def test_no_form_of_a_secret_shows_it(text: str) -> None:
    secret = Secret.parse(text)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", "%s" % secret]  # noqa: UP031
    assert CANARY in secret.reveal()
    assert not [each for each in shown if CANARY in each]


def test_a_secret_is_itself_or_the_content_of_a_file_or_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("from file\n")
    monkeypatch.setenv("A_PASSWORD", "from variable")
    given = [CANARY, f"@{file}", "env:A_PASSWORD", "${env:A_PASSWORD}", "@@x", "${env:not closed"]
    assert [Secret.parse(each).reveal() for each in given] == [
        CANARY, "from file", "from variable", "from variable", "@x", "${env:not closed",
    ]  # fmt: skip
    assert [Secret.parse(each).is_literal for each in given] == [True, False, False, False, True, True]


def test_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    secret = Secret.file(file)
    fixed = secret.fixed()
    file.write_text("new\r\n")
    assert (secret.reveal(), fixed.reveal()) == ("new", "old")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.write_text("x")
    open_to_all.chmod(0o666)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for secret, why in [
        (Secret.file(tmp_path / "none"), "No such file"),
        (Secret.file(open_to_all), "changed by every user"),
        (Secret.file(binary), "not UTF-8"),
        (Secret.env("KOHORT_NO_SUCH_VARIABLE"), "KOHORT_NO_SUCH_VARIABLE"),
    ]:
        with pytest.raises(SecretError, match=why):
            secret.reveal()


def test_secrets_travel_and_compare() -> None:
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret.file("a") != Secret("a")
    assert not Secret()
    assert len({Secret("a"), Secret("a"), Secret.env("a")}) == 2


def test_a_file_that_every_user_may_read_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    for file, mode in ((shared, 0o644), (own, 0o600)):
        file.write_text("canary")
        file.chmod(mode)
        for _ in range(2):
            assert Secret.file(file).reveal() == "canary"
    (warning,) = caplog.messages
    assert f"{shared} of a secret can be read by every user" in warning
    assert "canary" not in warning
