"""DescribeTransactions (65): there are none, so every id is unknown."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(
    _broker: "BrokerState", request: DescribeTransactionsRequest, _context: Context
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _refused(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name else ErrorCode.INVALID_REQUEST)
            for name in request.transactional_ids
        ]
    )


def refuse(request: DescribeTransactionsRequest, code: ErrorCode) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_refused(name, code) for name in request.transactional_ids]
    )


def _refused(name: str, code: ErrorCode) -> TransactionState:
    return TransactionState(transactional_id=name, error_code=code)
