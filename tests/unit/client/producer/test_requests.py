import pytest

from kohort.client.producer.batch import BatchVerdict, verdict
from kohort.model.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, BatchVerdict.STORED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, BatchVerdict.STORED_BEFORE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, BatchVerdict.AGAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, BatchVerdict.AGAIN),
        (ErrorCode.UNKNOWN_TOPIC_ID, BatchVerdict.AGAIN),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BatchVerdict.MISNUMBERED),
        (ErrorCode.UNKNOWN_PRODUCER_ID, BatchVerdict.MISNUMBERED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, BatchVerdict.FENCED),
        (ErrorCode.MESSAGE_TOO_LARGE, BatchVerdict.TOO_LARGE),
        (ErrorCode.INVALID_RECORD, BatchVerdict.REFUSED),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BatchVerdict.REFUSED),
        (9_999, BatchVerdict.REFUSED),
    ],
)
def test_each_code_means_one_thing_for_a_numbered_batch(code: int, expected: BatchVerdict) -> None:
    assert verdict(code, records=2, is_numbered=True) is expected


def test_a_single_record_cannot_be_halved() -> None:
    assert verdict(ErrorCode.MESSAGE_TOO_LARGE, records=1, is_numbered=True) is BatchVerdict.REFUSED


def test_a_batch_without_numbers_cannot_be_numbered_anew() -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    assert verdict(code, records=2, is_numbered=False) is BatchVerdict.REFUSED
