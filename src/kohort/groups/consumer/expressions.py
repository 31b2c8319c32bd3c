"""Subscriptions by regular expression: when they are matched with the topics again (modern-groups 11)."""

from kohort.groups.causes import ExpressionsMatched
from kohort.groups.commands import ConsumerHeartbeat, ExpressionsResolved, ResolveExpressions
from kohort.groups.consumer.events import ConsumerGroupStored, ExpressionStored, ResolvedExpression
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.consumer.target import metadata_hash
from kohort.groups.events import DurableEvent
from kohort.groups.outcome import Outcome

SHORTEST_PAUSE_MS = 10_000  # between two times that the expressions of a group are resolved


def maybe_resolve(group: ConsumerGroup, command: ConsumerHeartbeat, out: Outcome) -> None:
    """Ask for all expressions of the group together, if the time has come for it."""
    if group.is_resolving:
        return
    used = group.used_expressions()
    if not used or not _is_due(group, used, out):
        return
    group.is_resolving = True
    group.resolved_at = out.now.instant
    out.effects.append(
        ResolveExpressions(group.group_id, used, command.principal, command.client_host, out.now.wall)
    )


def _is_due(group: ConsumerGroup, used: tuple[str, ...], out: Outcome) -> bool:
    if not all(each in group.expressions for each in used):
        return group.resolved_at is None or _age(group, out) > SHORTEST_PAUSE_MS
    newest = max(each.timestamp for each in group.expressions.values())
    age = out.now.wall - newest
    is_of_another_clock = age < 0  # a node whose clock is ahead coordinated the group before
    is_new = 0 <= age <= SHORTEST_PAUSE_MS
    if is_new or (group.resolved_at is not None and _age(group, out) <= SHORTEST_PAUSE_MS):
        return False
    is_behind = any(group.expressions[each].version < out.state.topics.version for each in used)
    is_old = age > out.state.settings.consumer_regex_refresh_interval_ms
    return is_behind or is_old or is_of_another_clock


def _age(group: ConsumerGroup, out: Outcome) -> int:
    return out.now.instant - (group.resolved_at or 0)


def expressions_resolved(command: ExpressionsResolved, out: Outcome) -> None:
    """Store what still-used expressions match; a change of topics is a reason for a new group epoch."""
    group = out.state.consumer(command.group_id)
    if group is None:
        return
    group.is_resolving = False
    used = group.used_expressions()
    found = {each: tuple(sorted(set(topics))) for each, topics in command.topics if each in used}
    if not found:
        return
    cause = ExpressionsMatched(tuple(found))
    events: list[DurableEvent] = []
    for expression, topics in found.items():
        resolved = ResolvedExpression(topics, command.version, command.started_at)
        events.append(ExpressionStored(group.group_id, expression, resolved, cause))
    before = {each: resolved.topics for each, resolved in group.expressions.items()}
    after = before | found
    names = {name for each in group.subscriptions for name in each.names}
    digest = metadata_hash(names.union(*(after.get(each, ()) for each in used)), out.state.topics)
    if digest != group.metadata_hash or any(before.get(each, ()) != after[each] for each in found):
        events.append(ConsumerGroupStored(group.group_id, group.epoch + 1, digest, cause))
    out.emit_together(events)  # or none: what one batch cannot hold is matched again after a while
