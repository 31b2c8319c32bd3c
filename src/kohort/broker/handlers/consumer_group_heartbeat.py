"""ConsumerGroupHeartbeat (68): join, stay in or leave a consumer group (KIP-848).

Decided in ``kohort.groups.consumer.heartbeat``. v1: regular expressions, and the client makes the member id.

It is announced even where ``group.coordinator.rebalance.protocols`` leaves it out, as by Kafka. As long as
no broker announces it librdkafka waits, without a word and for ever. Refused with UNSUPPORTED_VERSION it
gives up with a reason, and franz-go falls back to the classic protocol.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import uuid4

from kohort.broker.context import Context, Response, Result
from kohort.broker.expressions import wrong_with
from kohort.broker.partition_runtime import then
from kohort.broker.recognition import Grounds, SameRequest
from kohort.groups.commands import ConsumerHeartbeat
from kohort.groups.consumer.heartbeat import quiet_reply
from kohort.groups.replies import ConsumerHeartbeatReply
from kohort.groups.translation.consumer import ConsumerExtras, heartbeat_command, heartbeat_response
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo, TopicId
from kohort.model.topics import show_topic_id
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_MEMBER_BYTES = 2_000  # that a member takes apart from what it says
_AT_ONCE = 1_000  # letters of an expression; a longer one is compiled in a thread
_ONLY_CLASSIC = (
    "This broker serves classic groups only: set group.protocol=classic, or start it with "
    "group.coordinator.rebalance.protocols=classic,consumer and raise the feature group.version to 1."
)


def handle(broker: "BrokerState", request: ConsumerGroupHeartbeatRequest, context: Context) -> Result:
    if not broker.features.has_consumer_groups:
        what = "groups of the consumer protocol (KIP-848)"
        broker.notices.refused(context, what, "set group.protocol=classic")
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_ONLY_CLASSIC
        )
    expression = request.subscribed_topic_regex or ""
    if len(expression) > _AT_ONCE:
        return _handle_later(broker, request, context, expression)
    return _ask(broker, request, context, wrong_with(expression) if expression else None)


async def _handle_later(
    broker: "BrokerState", request: ConsumerGroupHeartbeatRequest, context: Context, expression: str
) -> Response:
    wrong = await broker.heavy_work.call(lambda: wrong_with(expression))
    result = _ask(broker, request, context, wrong)
    return await result if isinstance(result, Awaitable) else result


def _ask(
    broker: "BrokerState", request: ConsumerGroupHeartbeatRequest, context: Context, wrong: str | None
) -> Result:
    names, expression = request.subscribed_topic_names, request.subscribed_topic_regex
    if request.member_epoch == 0:
        size = _MEMBER_BYTES + sum(map(len, names or ())) + len(expression or "")
        if not broker.coordinator.has_memory_for_consumer(request.group_id, request.member_id, size):
            return refuse(request, ErrorCode.GROUP_MAX_SIZE_REACHED)
    fresh_id = "" if request.member_id else show_topic_id(TopicId(uuid4().bytes))
    extras = ConsumerExtras(fresh_id, wrong, context.connection.principal)
    answer = broker.coordinator.ask(
        request.group_id, lambda reply_to: heartbeat_command(request, context, reply_to, extras)
    )
    return then(answer, heartbeat_response)


def remember(
    broker: "BrokerState",
    read: tuple[bytes, int, ConsumerGroupHeartbeatRequest],
    context: Context,
    grounds: Grounds,
    write: Callable[[ConsumerGroupHeartbeatResponse], bytes],
) -> SameRequest[ConsumerHeartbeatReply] | None:
    """What is kept of a frame with the request in it, if that only says that a member is alive."""
    frame, _, request = read
    if request.member_epoch <= 0 or not request.member_id or request.subscribed_topic_regex is not None:
        return None
    if not broker.features.has_consumer_groups:
        return None
    coordinator, group = broker.coordinator, request.group_id
    extras = ConsumerExtras(principal=context.connection.principal)

    def command(reply_to: ReplyTo) -> ConsumerHeartbeat:
        return heartbeat_command(request, context, reply_to, extras)

    quiet = command(ReplyTo(0))
    last = quiet_reply(quiet, 0)

    def decide(waiter: SameRequest[ConsumerHeartbeatReply]) -> object:
        nonlocal last
        interval = coordinator.quiet_heartbeat(quiet)
        if interval is None:
            return coordinator.ask(group, command, waiter)
        if interval != last.heartbeat_interval_ms:
            last = quiet_reply(quiet, interval)
        return last

    return SameRequest(frame, grounds, decide, lambda reply: write(heartbeat_response(reply)))


def refuse(_request: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
