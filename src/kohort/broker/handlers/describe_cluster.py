"""DescribeCluster (60): brokers, controller and cluster id. v1: endpoint types; v2: fenced brokers."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.metadata import ALL_CLUSTER_OPERATIONS
from kohort.broker.leadership import controller_id, nodes
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

BROKERS = 1
CONTROLLERS = 2


def handle(
    broker: "BrokerState", request: DescribeClusterRequest, context: Context
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        if context.version == 0:
            return refuse(request, ErrorCode.INVALID_REQUEST)
        if request.endpoint_type == CONTROLLERS:
            return refuse(request, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
        return refuse(request, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    response = DescribeClusterResponse(
        cluster_id=broker.catalog.cluster_id,
        controller_id=controller_id(broker),
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes(broker, context)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def refuse(_request: DescribeClusterRequest, code: ErrorCode) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=code.name)
