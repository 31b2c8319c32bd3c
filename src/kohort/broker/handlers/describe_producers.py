"""DescribeProducers (61): what partitions remember of their idempotent producers."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.broker.leadership import led
from kohort.log.log import Log
from kohort.log.producers import ProducerState as Producer
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import ProducerId
from kohort.model.topics import is_legal_name
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE, _PRODUCER_PRICE = 5, 2


def handle(broker: "BrokerState", request: DescribeProducersRequest, _context: Context) -> Result:
    return broker.heavy_work.run(_answer(broker, request))


def _answer(
    broker: "BrokerState", request: DescribeProducersRequest
) -> Steps[None, DescribeProducersResponse]:
    """A partition that is named again is answered once: the reply would grow with the product."""
    response = DescribeProducersResponse()
    slice_ = WorkSlice()
    answered: set[tuple[str, int]] = set()
    for topic in request.topics:
        result = TopicResponse(name=topic.name)
        response.topics.append(result)
        for index in topic.partition_indexes:
            if (topic.name, index) in answered:
                continue
            answered.add((topic.name, index))
            described, log = _find(broker, topic.name, index)
            result.partitions.append(described)
            if slice_.is_full(_PRICE):
                yield None
            for producer_id, producer in () if log is None else tuple(log.producers.active()):
                described.active_producers.append(_state(producer_id, producer))
                if slice_.is_full(_PRODUCER_PRICE):
                    yield None
    return response


def refuse(request: DescribeProducersRequest, code: ErrorCode) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_refused(index, code) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _refused(index: int, code: ErrorCode, text: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=text)


def _find(broker: "BrokerState", name: str, index: int) -> tuple[PartitionResponse, Log | None]:
    if not is_legal_name(name):
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION), None
    try:
        log = led(broker, broker.topics.get(name), index)
    except RefusedError as error:
        return _refused(index, error.code, str(error)), None
    return PartitionResponse(partition_index=index, active_producers=[]), log


def _state(producer_id: ProducerId, producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.open_since,
    )
