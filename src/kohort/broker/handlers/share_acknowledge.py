"""ShareAcknowledge (79): refused, as Kafka does while share groups are switched off."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(
    _broker: "BrokerState", request: ShareAcknowledgeRequest, _context: Context
) -> ShareAcknowledgeResponse:
    return refuse(request, ErrorCode.UNSUPPORTED_VERSION)


def refuse(_request: ShareAcknowledgeRequest, code: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=code)
