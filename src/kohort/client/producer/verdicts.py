"""What a broker's answer means for a batch: a table, so that nobody has to find the cases again. No I/O."""

from enum import Enum

from kohort.model.errors import ErrorCode


class Verdict(Enum):
    """What becomes of a batch after its answer."""

    STORED = "stored, where the answer says"
    STORED_BEFORE = "stored by an earlier attempt; where, the broker forgot"
    AGAIN = "to be sent again, unchanged"
    MISNUMBERED = "to be sent again; with other numbers, unless batches before it were the reason"
    FENCED = "refused, and our producer id with it"
    TOO_LARGE = "to be sent in two halves"
    REFUSED = "refused for good"


_SPECIAL = {
    ErrorCode.NONE: Verdict.STORED,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.STORED_BEFORE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.MISNUMBERED,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.MISNUMBERED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    ErrorCode.MESSAGE_TOO_LARGE: Verdict.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.TOO_LARGE,
}


def verdict(code: int, *, records: int, is_numbered: bool) -> Verdict:
    """Of an error code, for a batch of so many records."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Verdict.REFUSED  # of a newer broker: nobody said that it passes
    found = _SPECIAL.get(known, Verdict.AGAIN if known.retriable else Verdict.REFUSED)
    if found is Verdict.TOO_LARGE and records < 2:
        return Verdict.REFUSED
    if found in (Verdict.MISNUMBERED, Verdict.FENCED) and not is_numbered:
        return Verdict.REFUSED
    return found
