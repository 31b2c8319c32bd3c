"""ShareFetch (78): refused, as Kafka does while share groups are switched off."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(_broker: "BrokerState", request: ShareFetchRequest, _context: Context) -> ShareFetchResponse:
    return refuse(request, ErrorCode.UNSUPPORTED_VERSION)


def refuse(_request: ShareFetchRequest, code: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code)
