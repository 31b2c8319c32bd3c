"""Error codes and exceptions."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from kohort.model.errors import ErrorCode, KohortError, RefusedError, reason_of


def test_codes_and_their_retry_rule_are_kafkas() -> None:
    theirs = {int(code.value): code for code in KioErrorCode}
    for code in ErrorCode:
        assert theirs[code.value].name == code.name.lower()
        assert theirs[code.value].retriable == code.retriable


def test_an_error_shows_its_hint() -> None:
    assert (
        str(KohortError("cannot listen", hint="choose another port")) == "cannot listen (choose another port)"
    )
    assert str(KohortError("cannot listen")) == "cannot listen"


def test_a_refusal_knows_its_code_and_whether_to_retry() -> None:
    error = RefusedError(ErrorCode.NOT_COORDINATOR)
    assert (error.code, error.retriable, str(error)) == (16, True, "NOT_COORDINATOR")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (FileNotFoundError(2, "No such file or directory", "/x"), "no such file or directory"),
        (OSError("Multiple things"), "multiple things"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_reason_of_a_system_error_is_words_without_its_number(error: OSError, reason: str) -> None:
    assert reason_of(error) == reason
