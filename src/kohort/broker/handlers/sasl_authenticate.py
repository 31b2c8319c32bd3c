"""SaslAuthenticate (36): refused as SaslHandshake is, which comes first.

v1: session lifetime; v2: flexible.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_PLAINTEXT = "This listener is plaintext: nobody logs in here."


def handle(
    _broker: "Broker", _request: SaslAuthenticateRequest, _context: Context
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_PLAINTEXT)


def refuse(_request: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=code.name)
