"""What the shell tells a shard: topics, configurations, resolved expressions, timers."""

from kohort.groups.commands import (
    ExpireClassicMember,
    ExpireRevocation,
    ExpressionsResolved,
    GroupConfigured,
    TopicsChanged,
)
from kohort.groups.outcome import Outcome


def topics_changed(command: TopicsChanged, out: Outcome) -> None:
    """Know the topics; groups look at them with the next heartbeat of a member."""
    out.state.topics.put(command.topics, command.version)


def group_configured(command: GroupConfigured, out: Outcome) -> None:
    """Know the values; they count from the next heartbeat of each member on."""
    out.state.configs[command.group_id] = command


def expressions_resolved(command: ExpressionsResolved, out: Outcome) -> None:
    """Nothing yet."""


def expire_revocation(command: ExpireRevocation, out: Outcome) -> None:
    """Nothing yet."""


def expire_classic_member(command: ExpireClassicMember, out: Outcome) -> None:
    """Nothing yet."""
