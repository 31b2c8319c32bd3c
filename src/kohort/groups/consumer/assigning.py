"""Targets that take long: the shell computes them while the shard goes on (modern-groups 12).

A group asks for one target at a time. Its members follow the target that there is, and new members have
nothing, until the answer comes. An answer that does not fit the group any more is dropped, and the group asks
again.
"""

from kohort.groups.causes import TargetComputed
from kohort.groups.commands import ComputeTarget, TargetReady
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.consumer.target import group_spec, run_assignor, target_events
from kohort.groups.encoding import encode
from kohort.groups.outcome import Outcome


def ask_for_target(group: ConsumerGroup, asked: ComputeTarget, out: Outcome) -> None:
    """Have the shell compute a target; until it answers, the group asks for no other one."""
    group.assigning = asked
    out.effects.append(asked)


def answer(asked: ComputeTarget) -> TargetReady:
    """Run the assignor, and make the records of what it changes. The shell may do so in a thread."""
    targets = run_assignor(asked.assignor, asked.spec)
    cause = TargetComputed(asked.epoch, asked.assignor, len(targets))
    events = tuple(target_events(asked.group_id, targets, asked.spec.targets, cause))
    return TargetReady(asked, events, encode(events))


def target_ready(command: TargetReady, out: Outcome) -> None:
    """Store the target, if it is that of the group as it is now."""
    asked = command.asked
    group = out.state.consumer(asked.group_id)
    if group is None or group.assigning is not asked:
        return  # another group of this name, or it was loaded again meanwhile
    group.assigning = None
    if command.events is None:
        group.cannot_assign = True
    elif group.epoch != asked.epoch or asked.spec.topics.keys() != group.members.keys():
        _ask_again(group, out)
    else:
        group.cannot_assign = not out.emit_together(command.events, command.records)


def _ask_again(group: ConsumerGroup, out: Outcome) -> None:
    """Members came or went, or changed their subscription, while the target was computed."""
    if not group.members:
        return
    assignor = group.preferred_assignor(out.state.settings.consumer_assignors)
    spec = group_spec(group, out.state.topics)
    ask_for_target(group, ComputeTarget(group.group_id, group.epoch, assignor, spec), out)
