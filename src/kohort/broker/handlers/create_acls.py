"""CreateAcls (30): each rule is refused, for there is no authorizer that could keep it."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.describe_acls import NO_AUTHORIZER
from kohort.model.errors import ErrorCode
from kohort.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(_broker: "Broker", request: CreateAclsRequest, _context: Context) -> CreateAclsResponse:
    return _answer(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def refuse(request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    return _answer(request, code, code.name)


def _answer(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )
