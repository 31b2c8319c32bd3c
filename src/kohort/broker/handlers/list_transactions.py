"""ListTransactions (66): there are none. v1: by duration; v2: by pattern."""

import re
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_LONGEST_PATTERN = 1_000  # compiling one takes time
_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def handle(
    _broker: "BrokerState", request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse:
    if context.version >= 2 and not _is_pattern(request.transactional_id_pattern or ""):
        return refuse(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [state for state in request.state_filters if state not in _STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)


def _is_pattern(text: str) -> bool:
    if len(text) > _LONGEST_PATTERN:
        return False
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def refuse(_request: ListTransactionsRequest, code: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)
