"""SaslAuthenticate (36): the gate of a SASL listener answers log-ins; here it is out of place.

v1: session lifetime; v2: flexible.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PLAINTEXT = "This listener is plaintext: clients do not log in here."
_ALREADY = "SaslAuthenticate request received after successful authentication"


def handle(
    _broker: "BrokerState", _request: SaslAuthenticateRequest, context: Context
) -> SaslAuthenticateResponse:
    text = _PLAINTEXT if context.connection.endpoint.sasl is None else _ALREADY
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=text)


def refuse(_request: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=code.name)
