"""InitProducerId (22): an id for an idempotent producer.

v2: flexible; v3: the producer's current id and epoch; v4: PRODUCER_FENCED; v5: TRANSACTION_ABORTABLE.
Transactions are not served: a transactional id is refused with UNSUPPORTED_VERSION, which clients report
at once instead of retrying.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


async def handle(
    broker: "BrokerState", request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        broker.notices.refused(
            context, "transactions", "use an idempotent producer without a transactional.id"
        )
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION)
    return InitProducerIdResponse(producer_id=await broker.catalog.next_producer_id(), producer_epoch=0)


def refuse(_request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
