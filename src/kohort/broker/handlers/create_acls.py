"""CreateAcls (30): rules for the authorizer. All that are valid are stored in one step."""

from ipaddress import ip_address
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.describe_acls import NO_AUTHORIZER
from kohort.broker.heavy_work import WorkSlice
from kohort.model.errors import ErrorCode, ProtocolError, RefusedError
from kohort.security.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    Acl,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
    host_text,
)
from kohort.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 5  # of a rule
_STORABLE = {
    AclResourceType: range(2, 8),
    PatternType: range(3, 5),
    Operation: range(2, 16),
    Permission: range(2, 4),
}


async def handle(broker: "BrokerState", request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    if broker.authorizer is None:
        return _answer(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    for one in request.creations:
        if 0 in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type):
            raise ProtocolError(f"{context} has a rule with an UNKNOWN element")
    added: dict[Acl, None] = {}
    results = []
    slice_ = WorkSlice()
    for one in request.creations:
        await slice_.spend(_PRICE)
        try:
            acl = _acl(one)
        except RefusedError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=str(error)))
        else:
            if acl not in broker.catalog.acls:
                added[acl] = None
            results.append(AclCreationResult(error_message=None))
    if added:
        await broker.catalog.change_acls((), added)
        broker.authorizer.changed(broker.catalog.acls)
    return CreateAclsResponse(results=results)


def _acl(one: AclCreation) -> Acl:
    kind, pattern, operation, permission = (
        _member(of, value)
        for of, value in (
            (AclResourceType, one.resource_type),
            (PatternType, one.resource_pattern_type),
            (Operation, one.operation),
            (Permission, one.permission_type),
        )
    )
    if kind == AclResourceType.CLUSTER and one.resource_name != CLUSTER_NAME:
        raise _invalid("The only valid name for the CLUSTER resource is kafka-cluster")
    if not one.resource_name:
        raise _invalid("Resource name should not be empty")
    kind_of, _, name = one.principal.partition(":")
    if not kind_of.strip() or not name.strip():
        raise _invalid("The principal must have the form TYPE:NAME, as in User:alice")
    return Acl(
        AclResourceType(kind),
        one.resource_name,
        PatternType(pattern),
        one.principal,
        _host(one.host),
        Operation(operation),
        Permission(permission),
    )


def _member(of: type[AclResourceType | PatternType | Operation | Permission], value: int) -> int:
    if value not in _STORABLE[of]:
        raise _invalid(f"Invalid {of.__name__} {value}")
    return value


def _host(text: str) -> str:
    if text == ANY_HOST:
        return text
    try:
        ip_address(text)
    except ValueError:
        raise _invalid("The host must be * or an IP address") from None
    return host_text(text)


def _invalid(text: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, text)


def refuse(request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    return _answer(request, code, code.name)


def _answer(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )
