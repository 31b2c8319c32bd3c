"""ShareGroupHeartbeat (76): refused, as Kafka does while share groups are switched off (``share.version`` 0).

It is announced all the same, as by Kafka: librdkafka waits for ever for a broker that announces it.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_NO_SHARE_GROUPS = "Kohort does not serve share groups: use a consumer group."


def handle(
    broker: "BrokerState", _request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse:
    broker.notices.refused(context, "share groups", "use a consumer group")
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_NO_SHARE_GROUPS
    )


def refuse(_request: ShareGroupHeartbeatRequest, code: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code)
