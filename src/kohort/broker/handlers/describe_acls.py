"""DescribeAcls (29): there is no authorizer, and who asks for its rules is told so, as by Kafka."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

NO_AUTHORIZER = "There is no authorizer here: every client may do everything."


def handle(_broker: "Broker", _request: DescribeAclsRequest, _context: Context) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


def refuse(_request: DescribeAclsRequest, code: ErrorCode) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=code.name)
