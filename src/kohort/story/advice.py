"""What to do about a rebalance, where its cause tells."""

from kohort.story.names import show_span
from kohort.story.rebalance import Cause, End, GroupKind, Rebalance


def advice(rebalance: Rebalance) -> str | None:
    """One sentence, or nothing if there is nothing to be done: members come and go."""
    for cause in (rebalance.cause, rebalance.prepared_by, *(one.cause for one in rebalance.removals)):
        found = _about(cause, rebalance.kind) if cause is not None else None
        if found is not None:
            return found
    if rebalance.kind is GroupKind.CONSUMER:
        return _about_following(rebalance) if rebalance.end is End.RUNNING else None
    if rebalance.end is End.RUNNING and rebalance.awaited:
        return "who is waited for is busy and joins with its next poll, or is gone until its session expires"
    if rebalance.is_cooperative and any(one.after is None for one in rebalance.moves):
        return "the first half of a cooperative rebalance: the next one hands out what this one took away"
    return None


def _about_following(rebalance: Rebalance) -> str | None:
    """What a consumer group waits for."""
    if any(one.given_after_ms is None for one in rebalance.revocations):
        return "who has to give up partitions does so with its next poll, or is removed: max.poll.interval.ms"
    return "each member follows with its next heartbeat: consumer.heartbeat.interval.ms"


def _about(cause: Cause, kind: GroupKind) -> str | None:
    match cause["kind"]:
        case "SessionExpired":
            setting = "session.timeout.ms" if kind is GroupKind.CLASSIC else "consumer.session.timeout.ms"
            return (
                f"the process died, hung or was cut off: nothing was heard of it for {setting} "
                f"({show_span(cause['timeout_ms'])})"
            )
        case "RevocationTimedOut" | "ClassicMemberTimedOut":
            return (
                "it was busy for longer than max.poll.interval.ms "
                f"({show_span(cause['timeout_ms'])}): poll more often, or process less per poll"
            )
        case "JoinTimedOut":
            return (
                "who did not join was busy for longer than max.poll.interval.ms "
                f"({show_span(cause['timeout_ms'])}): poll more often, or process less per poll"
            )
        case "SyncTimedOut":
            return "who joins and then asks for nothing is stuck or gone: look at its log"
        case "NewMemberExpired" | "PendingIdExpired":
            return "a client came and never came back: look at its log, and at the network between"
        case "CapacityReached":
            return "start fewer members, or raise group.max.size"
        case "AppendRefused":
            return "the broker could not store the group: look at its log and at its disk"
        case "MemberLeft" if "poll timeout" in (cause["reason"] or ""):
            return "it did not poll within max.poll.interval.ms: poll more often, or process less per poll"
        case _:
            return None
