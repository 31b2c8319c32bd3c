"""ListPartitionReassignments (46): nothing is ever being reassigned where there is one replica."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(
    _broker: "BrokerState", _request: ListPartitionReassignmentsRequest, _context: Context
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)


def refuse(request: ListPartitionReassignmentsRequest, code: ErrorCode) -> ListPartitionReassignmentsResponse:
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=code.name, topics=topics)
