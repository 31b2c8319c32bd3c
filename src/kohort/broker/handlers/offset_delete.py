"""OffsetDelete (47): forget committed offsets. Decided in ``kohort.groups.offsets.delete``."""

from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.translation.offsets import (
    NamedPartition,
    delete_command,
    delete_response,
    partitions_to_delete,
)
from kohort.model.errors import ErrorCode
from kohort.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(broker: "BrokerState", request: OffsetDeleteRequest, _context: Context) -> Result:
    """The coordinator is asked even if no partition is left to delete: it may not know the group."""
    known: list[NamedPartition] = []
    unknown: list[NamedPartition] = []
    for each in partitions_to_delete(request):
        (known if broker.topics.has(*each) else unknown).append(each)
    answer = broker.coordinator.ask(request.group_id, partial(delete_command, request, known))
    return then(answer, partial(delete_response, unknown=unknown))


def refuse(_request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)
