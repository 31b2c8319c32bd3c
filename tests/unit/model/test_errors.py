"""Error codes and exceptions."""

from kio.schema.errors import ErrorCode as KioErrorCode

from kohort.model.errors import ErrorCode, KohortError, RefusedError


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
