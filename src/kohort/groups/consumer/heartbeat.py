"""ConsumerGroupHeartbeat."""

from kohort.groups.commands import ConsumerHeartbeat
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ConsumerHeartbeatReply
from kohort.groups.validate import check_consumer_heartbeat
from kohort.model.errors import ErrorCode


def consumer_heartbeat(command: ConsumerHeartbeat, out: Outcome) -> None:
    """Consumer groups are not served yet."""
    invalid = check_consumer_heartbeat(command, out.state.settings)
    out.reply(command.reply_to, invalid or ConsumerHeartbeatReply(error=ErrorCode.UNSUPPORTED_VERSION))
