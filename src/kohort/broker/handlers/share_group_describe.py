"""ShareGroupDescribe (77): refused, as Kafka does while share groups are switched off."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(
    _broker: "BrokerState", request: ShareGroupDescribeRequest, _context: Context
) -> ShareGroupDescribeResponse:
    return refuse(request, ErrorCode.UNSUPPORTED_VERSION)


def refuse(request: ShareGroupDescribeRequest, code: ErrorCode) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group, error_code=code) for group in request.group_ids]
    )
