"""DescribeAcls (29): the rules that a filter finds. Without an authorizer there are none, as in Kafka."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.security.acls import Acl, AclFilter
from kohort.wire.messages.delete_acls import DeleteAclsFilter
from kohort.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

NO_AUTHORIZER = "There is no authorizer here: every client may do everything."


def handle(broker: "BrokerState", request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    if broker.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    wanted = acl_filter(request, context)
    found: dict[tuple[int, str, int], list[Acl]] = {}
    for acl in broker.catalog.acls:
        if wanted.matches(acl):
            found.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(acl)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (kind, name, pattern), acls in found.items()
        ],
    )


def acl_filter(asked: DescribeAclsRequest | DeleteAclsFilter, context: Context) -> AclFilter:
    """The filter of a request; Kafka's parser fails on a 0, which closes the connection."""
    wanted = AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    if 0 in (wanted.resource_type, wanted.pattern, wanted.operation, wanted.permission):
        raise ProtocolError(f"{context} has a filter with an UNKNOWN element")
    return wanted


def refuse(_request: DescribeAclsRequest, code: ErrorCode) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=code.name)
