import pytest

from kohort.client.producer.batch import Verdict, verdict
from kohort.model.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, Verdict.STORED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Verdict.STORED_BEFORE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.AGAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.AGAIN),
        (ErrorCode.UNKNOWN_TOPIC_ID, Verdict.AGAIN),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.MISNUMBERED),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.MISNUMBERED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.TOO_LARGE),
        (ErrorCode.INVALID_RECORD, Verdict.REFUSED),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.REFUSED),
        (9_999, Verdict.REFUSED),
    ],
)
def test_each_code_means_one_thing_for_a_numbered_batch(code: int, expected: Verdict) -> None:
    assert verdict(code, records=2, is_numbered=True) is expected


def test_a_single_record_cannot_be_halved() -> None:
    assert verdict(ErrorCode.MESSAGE_TOO_LARGE, records=1, is_numbered=True) is Verdict.REFUSED


def test_a_batch_without_numbers_cannot_be_numbered_anew() -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    assert verdict(code, records=2, is_numbered=False) is Verdict.REFUSED
