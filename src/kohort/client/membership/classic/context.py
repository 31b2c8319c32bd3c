"""What the parts of a classic member share: besides the rest, its assignors."""

from collections.abc import Sequence

from kohort.assign.assignor import Assignor
from kohort.assign.registry import rebalance_protocol
from kohort.client.membership.context import MemberContext
from kohort.client.membership.settings import MemberSettings
from kohort.client.membership.state import Member
from kohort.client.settings import Dice
from kohort.client.subscription import Subscriptions
from kohort.model.ids import Instant


class ClassicContext(MemberContext):
    """The protocol is EAGER or COOPERATIVE by the own assignors, not by the one the group selected."""

    member: Member

    def __init__(
        self,
        settings: MemberSettings,
        assignors: Sequence[Assignor],
        subscriptions: Subscriptions,
        dice: Dice,
        now: Instant,
    ) -> None:
        super().__init__(settings, Member(now), subscriptions, dice, now)
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = rebalance_protocol(assignors)
