"""ConsumerGroupDescribe (69): refused, as Kafka does while its consumer protocol is switched off.

Admin clients then ask DescribeGroups.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(
    _broker: "Broker", request: ConsumerGroupDescribeRequest, _context: Context
) -> ConsumerGroupDescribeResponse:
    return refuse(request, ErrorCode.UNSUPPORTED_VERSION)


def refuse(request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group, error_code=code) for group in request.group_ids]
    )
