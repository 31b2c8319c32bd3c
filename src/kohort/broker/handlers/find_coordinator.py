"""FindCoordinator (10): which broker coordinates a group.

v1: key types, error messages; v3: flexible; v4: several keys; v5: TRANSACTION_ABORTABLE; v6: share groups.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.leadership import reachable
from kohort.model.errors import ErrorCode, RefusedError
from kohort.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 3  # of a key
GROUP = 0
TRANSACTION = 1
_FIRST_FLEXIBLE_VERSION = 3
_FIRST_VERSION_WITH_KEYS = 4
_INSTEAD = {
    "transactions": "use an idempotent producer without a transactional.id",
    "share groups": "use a consumer group",
}
_NOT_AVAILABLE = "The coordinator is not available."
_ONLY_GROUPS = "Kohort coordinates consumer groups; transactions and share groups are not served."


async def handle(
    broker: "BrokerState", request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse:
    if request.key_type != GROUP:
        feature = "transactions" if request.key_type == TRANSACTION else "share groups"
        broker.notices.refused(context, feature, _INSTEAD[feature])
        return _answer(request, context.version, _refusal(request, context.version), _ONLY_GROUPS)
    try:
        await broker.coordinator.ensure_offsets_topic()
    except RefusedError:
        return _answer(request, context.version, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE)
    if context.version < _FIRST_VERSION_WITH_KEYS:
        response = _answer(request, context.version, ErrorCode.NONE, "NONE")
        _fill_in(broker, request.key, response, context)
        return response
    found = []
    slice_ = WorkSlice()
    for key in request.coordinator_keys:
        await slice_.spend(_PRICE)
        entry = Coordinator(key=key, node_id=-1, port=-1, error_message="")
        _fill_in(broker, key, entry, context)
        found.append(entry)
    return FindCoordinatorResponse(coordinators=found)


def _fill_in(
    broker: "BrokerState", group_id: str, entry: FindCoordinatorResponse | Coordinator, context: Context
) -> None:
    node = broker.coordinator.coordinator_of(group_id)
    if node is not None:
        node = reachable(broker, node, context)
    if node is None:
        entry.error_code, entry.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE
    else:
        entry.node_id, entry.host, entry.port = node.node_id, node.host, node.port


def _refusal(request: FindCoordinatorRequest, version: int) -> ErrorCode:
    """What ends the search at once, and lets the client show our text.

    librdkafka, which asks in v2, gives up only where the transactional id may not be used, and goes on
    asking for ever after any other code. Clients that ask in later versions would then leave our text out.
    """
    if request.key_type == TRANSACTION and version < _FIRST_FLEXIBLE_VERSION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST


def refuse(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
    version = _FIRST_VERSION_WITH_KEYS if request.coordinator_keys else 0
    return _answer(request, version, code, code.name)


def _answer(
    request: FindCoordinatorRequest, version: int, code: ErrorCode, message: str
) -> FindCoordinatorResponse:
    """One entry for each key, in order; before v4 there is one key, and it is the whole reply."""
    if version < _FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=-1, port=-1)
    # Kafka leaves the message empty here unless the request itself is wrong.
    text = message if code is ErrorCode.INVALID_REQUEST else ""
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=text)
            for key in request.coordinator_keys
        ]
    )
