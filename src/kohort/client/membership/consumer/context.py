"""What the parts of a member of the consumer protocol share."""

from kohort.client.membership.consumer.state import ConsumerMember
from kohort.client.membership.context import MemberContext
from kohort.client.membership.settings import MemberSettings
from kohort.client.settings import Dice
from kohort.client.subscription import Subscriptions
from kohort.model.ids import Instant, MemberId


class ConsumerContext(MemberContext):
    """The rest is that of every member."""

    member: ConsumerMember

    def __init__(
        self,
        settings: MemberSettings,
        member_id: MemberId,
        subscriptions: Subscriptions,
        dice: Dice,
        now: Instant,
    ) -> None:
        super().__init__(settings, ConsumerMember(member_id), subscriptions, dice, now)
        self.heartbeat_interval_ms = 0  # the coordinator says it
