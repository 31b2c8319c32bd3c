"""ElectLeaders (43): every partition has the leader it can have, so no election is needed.

v1: unclean elections, an error for the whole reply; v2: flexible.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

PREFERRED = 0
UNCLEAN = 1


def handle(broker: "BrokerState", request: ElectLeadersRequest, _context: Context) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    if request.topic_partitions is None:  # all that need one, which are none
        return ElectLeadersResponse(
            replica_election_results=[ReplicaElectionResult(topic=topic.name) for topic in broker.topics]
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[_result(broker, asked.topic, index) for index in asked.partitions],
            )
            for asked in request.topic_partitions
        ]
    )


def refuse(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=code.name)
                    for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or []
        ],
    )


def _result(broker: "BrokerState", name: str, index: int) -> PartitionResult:
    topic = broker.topics.get(name)
    if topic is None or not 0 <= index < topic.partitions:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition."
    else:
        code, text = ErrorCode.ELECTION_NOT_NEEDED, "It has the leader it can have."
    return PartitionResult(partition_id=index, error_code=code, error_message=text)
