"""SaslHandshake (17): the gate of a SASL listener answers log-ins; here it is out of place.

Kafka serves it on a plaintext listener too: a client that is set to SASL learns so at once, where Java's
would otherwise try to connect until its time is over.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(_broker: "BrokerState", request: SaslHandshakeRequest, _context: Context) -> SaslHandshakeResponse:
    return refuse(request, ErrorCode.ILLEGAL_SASL_STATE)


def refuse(_request: SaslHandshakeRequest, code: ErrorCode) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)
