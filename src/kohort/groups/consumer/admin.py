"""ConsumerGroupDescribe (modern-groups 13)."""

from kohort.groups.commands import DescribeConsumerGroup
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ConsumerDescribeReply
from kohort.model.errors import ErrorCode


def describe_consumer_group(command: DescribeConsumerGroup, out: Outcome) -> None:
    """A consumer group, or that there is none of this id."""
    reply = ConsumerDescribeReply(
        group_id=command.group_id,
        error=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {command.group_id} not found.",
    )
    out.reply(command.reply_to, reply, out.rests_on(command.group_id))
