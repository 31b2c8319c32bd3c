"""DeleteAcls (31): each filter is refused, for there is no authorizer that has rules."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.describe_acls import NO_AUTHORIZER
from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(_broker: "Broker", request: DeleteAclsRequest, _context: Context) -> DeleteAclsResponse:
    return _answer(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def refuse(request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    return _answer(request, code, code.name)


def _answer(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters
        ]
    )
