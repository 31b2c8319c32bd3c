"""DescribeClientQuotas (48): there are none. ``kafka-configs --describe`` of users asks for them first."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_ENTITIES = frozenset({"user", "client-id", "ip"})


def handle(
    _broker: "BrokerState", request: DescribeClientQuotasRequest, _context: Context
) -> DescribeClientQuotasResponse:
    seen: set[str] = set()
    for component in request.components:
        code = _problem(component, seen)
        if code is not None:
            return refuse(request, code)
        seen.add(component.entity_type)
    if "ip" in seen and len(seen) > 1:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    return DescribeClientQuotasResponse(error_message=None)


def _problem(component: ComponentData, seen: set[str]) -> ErrorCode | None:
    """What is wrong with a part of the filter, in Kafka's order."""
    if not component.entity_type or component.entity_type in seen:
        return ErrorCode.INVALID_REQUEST
    if component.entity_type not in _ENTITIES:
        return ErrorCode.UNSUPPORTED_VERSION
    has_name = {_EXACT: True, _DEFAULT: False, _SPECIFIED: False}.get(component.match_type)
    return None if has_name is (component.match is not None) else ErrorCode.INVALID_REQUEST


def refuse(_request: DescribeClientQuotasRequest, code: ErrorCode) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=code.name, entries=None)
