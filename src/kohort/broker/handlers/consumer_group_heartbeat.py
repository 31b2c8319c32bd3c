"""ConsumerGroupHeartbeat (68): refused, as Kafka does while its consumer protocol is switched off.

It is announced all the same, as by Kafka: as long as no broker announces it librdkafka waits, without a word
and for ever; refused with UNSUPPORTED_VERSION it gives up with a reason, and franz-go falls back to the
classic protocol.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_ONLY_CLASSIC = "Kohort serves classic groups only: set group.protocol=classic."


def handle(
    broker: "Broker", _request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse:
    broker.notices.refused(context, "groups of the consumer protocol (KIP-848)", "set group.protocol=classic")
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_ONLY_CLASSIC
    )


def refuse(_request: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
