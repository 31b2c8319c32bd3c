"""A consumer group (KIP-848), followed through the documents of the journal.

One group epoch is one rebalance: something makes the epoch grow, the next heartbeat of a member brings a new
target, and each member follows it with heartbeats of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kohort.model.topics import TopicPartition
from kohort.story.classic import coordinator_loaded, how_lost
from kohort.story.names import show_span
from kohort.story.owners import Orphan
from kohort.story.plot import Details, Plot
from kohort.story.rebalance import (
    UNKNOWN_CAUSE,
    Arrival,
    Cause,
    End,
    GroupKind,
    Lost,
    Rebalance,
    Removal,
    Replacement,
    Revocation,
)

_AWAY = -2  # the epoch of a static member that will be back
_STABLE, _UNRELEASED = "STABLE", "UNRELEASED_PARTITIONS"
_NOTHING: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class _Member:
    """A member on its way; ``epoch`` is ``None`` as long as the journal has not said it."""

    epoch: int | None = None
    state: str = _STABLE
    pending: frozenset[TopicPartition] = _NOTHING
    target: frozenset[TopicPartition] = _NOTHING

    @property
    def is_away(self) -> bool:
        return self.epoch == _AWAY


class ConsumerFollower:
    """Follows the epochs of one consumer group."""

    def __init__(self, plot: Plot) -> None:
        self._plot = plot
        self._members: dict[str, _Member] = {}
        self._target_epoch: int | None = None
        self._longest = 0  # time without an owner of what a static member found again
        self._size = 0  # of the group, as the target knows it: the journal may not have named all members yet

    def awaited(self, running: Rebalance) -> tuple[str, ...]:
        """The members that hold up others, or have not followed the target yet."""
        behind = [name for name, one in self._members.items() if not self._has_arrived(one)]
        moving = [name for name in behind if self._members[name].state != _UNRELEASED]
        return tuple(moving or behind)

    def _has_arrived(self, member: _Member) -> bool:
        return member.is_away or (member.state == _STABLE and member.epoch == self._target_epoch)

    def miss_events(self) -> None:
        """The journal lost events: where each member is has to be seen again."""
        if self._members:
            for member in self._members.values():
                member.epoch = None
            self._plot.owners.forget()

    # --- the group ----------------------------------------------------------------------------

    def group_loaded(self, at: int, details: Details, cause: Cause) -> None:
        """The log is right: the coordinator goes on with what it has, and so does a running rebalance."""
        plot = self._plot
        plot.mention(at, "ConsumerGroupLoaded", f"{coordinator_loaded(cause)}: {cause['sentence']}")
        self._members, self._target_epoch = {}, details["target_epoch"]
        plot.generation = int(details["epoch"])
        plot.roll.clear()
        owners: dict[TopicPartition, str] = {}
        away: dict[TopicPartition, Orphan] = {}
        for one in details["image"]:
            name, current = one["member_id"], one["current"]
            plot.roll.add_consumer(name, one["details"])
            member = self._members[name] = _Member(
                current["member_epoch"], current["state"], target=plot.named(one["target"])
            )
            member.pending = plot.named(current["pending_revocation"])
            held = plot.named(current["assigned"]) | member.pending
            if member.is_away:
                away.update(dict.fromkeys(held, Orphan(name, Lost.AWAY, at)))
            else:
                owners.update(dict.fromkeys(held, name))
        plot.owners.begin(owners, away | plot.owners.orphans)
        self._size = len(self._members)
        plot.drop_draft()
        self._maybe_end(at, cause)

    def epoch_grew(self, at: int, details: Details, cause: Cause) -> None:
        """A member made a new target necessary; a group that changes its kind keeps its number."""
        plot, epoch = self._plot, int(details["epoch"])
        plot.story.removed = None
        if cause["kind"] == "KindChanged":  # what every member has comes next
            plot.generation, plot.owners.is_known = epoch, True
            return
        if plot.generation is None and epoch == 1:  # nothing was before
            plot.owners.begin({})
        elif plot.generation is not None and epoch != plot.generation + 1 and epoch != 1:
            self.miss_events()
        overtaken = plot.running
        if overtaken is not None:
            self._finish(overtaken)
            overtaken.end, overtaken.ended_at, overtaken.end_cause = End.RESTARTED, at, cause
        started = plot.start(at, cause, GroupKind.CONSUMER)
        started.generation, started.is_cooperative = epoch, True
        started.members = tuple(self._members)
        plot.generation = epoch
        self._maybe_end(at, cause)

    def group_dropped(self, at: int, details: Details, cause: Cause) -> None:
        """The group is deleted, or a classic group now: then its members stay where they are."""
        self._members, self._target_epoch = {}, None
        if cause["kind"] in ("DeletionRequested", "RetentionPassed"):
            self._plot.begin_empty(0)
            self._plot.story.removed = cause
            self._plot.mention(at, "ConsumerGroupDropped", f"the group is gone: {cause['sentence']}")

    # --- members ------------------------------------------------------------------------------

    def member_stored(self, at: int, details: Details, cause: Cause) -> None:
        name = details["member_id"]
        is_new = name not in self._members
        self._plot.roll.add_consumer(name, details["details"])
        if not is_new:
            return
        self._members[name] = _Member()
        draft = self._plot.draft
        if cause["kind"] == "MemberArrived":
            draft.arrivals[name] = Arrival(name, 0, True, cause["reason"])
        elif cause["kind"] == "InstanceReturned":
            draft.replacements.append(Replacement(cause["instance_id"], cause["old_member_id"], name))

    def member_dropped(self, at: int, details: Details, cause: Cause) -> None:
        name = details["member_id"]
        self._members.pop(name, None)
        self._plot.roll.remove(name)
        if cause["kind"] != "InstanceReturned":
            self._plot.draft.arrivals.pop(name, None)
            self._plot.draft.removals.append(Removal(name, 0, cause))

    # --- the target ---------------------------------------------------------------------------

    def target_stored(self, at: int, details: Details, cause: Cause) -> None:
        self._member(details["member_id"]).target = self._plot.named(details["partitions"])

    def target_dropped(self, at: int, details: Details, cause: Cause) -> None:
        self._member(details["member_id"]).target = _NOTHING

    def target_computed(self, at: int, details: Details, cause: Cause) -> None:
        self._target_epoch = int(details["epoch"])
        if cause["kind"] != "TargetComputed":
            return
        running = self._plot.running
        if running is None:
            running = self._plot.start(at, UNKNOWN_CAUSE, GroupKind.CONSUMER)
            running.is_partial = running.is_cooperative = True
            self._plot.generation = running.generation = self._target_epoch
        running.prepared_at, running.prepared_by = at, cause
        running.protocol = cause["assignor"]
        running.members = tuple(self._members)
        self._size = cause["members"]

    def _member(self, name: str) -> _Member:
        return self._members.setdefault(name, _Member())

    # --- reconciliation -----------------------------------------------------------------------

    def current_stored(self, at: int, details: Details, cause: Cause) -> None:
        name, current = details["member_id"], details["current"]
        plot, member = self._plot, self._member(name)
        before, member.pending = member.pending, plot.named(current["pending_revocation"])
        assigned = plot.named(current["assigned"])
        member.epoch, member.state = int(current["member_epoch"]), current["state"]
        change = plot.owners.hold(name, assigned | member.pending, at)
        running = plot.running
        if running is not None:
            running.moves += change.moves
            running.unowned += change.unowned
            self._follow_revocation(running, name, before, at)
        if member.is_away:
            plot.owners.lose(name, Lost.AWAY, at)
            plot.mention(at, "MemberPaused", str(cause["sentence"]))
        elif cause["kind"] == "InstanceReturned":
            self._longest = max((at - one.since for one in change.unowned), default=0)
        elif cause["kind"] == "Reconciled" and plot.draft.replacements:
            self._take_over(at)
        self._maybe_end(at, cause)

    def _follow_revocation(
        self, running: Rebalance, name: str, before: frozenset[TopicPartition], at: int
    ) -> None:
        """Note when a member hears that it must give up partitions, and when it has done so."""
        member, after = self._members[name], at - running.started_at
        given_up = before - member.pending
        for number, one in enumerate(running.revocations):
            if one.member_id == name and one.given_after_ms is None and one.partitions <= given_up:
                running.revocations[number] = one._replace(given_after_ms=after)
        asked = member.pending - before
        if asked:
            waiting = tuple(other for other, one in self._members.items() if one.target & asked)
            running.revocations.append(Revocation(name, asked, waiting, after))

    def _take_over(self, at: int) -> None:
        """A static member is back, and no new epoch was needed for it."""
        without = f", its partitions had no owner for {show_span(self._longest)}" if self._longest else ""
        for one in self._plot.draft.replacements:
            sentence = f"instance {one.instance_id} came back as {one.member_id}, it was {one.old_member_id}"
            self._plot.mention(at, "MemberReplaced", f"{sentence}; no new epoch was needed{without}")
        self._plot.drop_draft()

    def current_dropped(self, at: int, details: Details, cause: Cause) -> None:
        name = details["member_id"]
        if cause["kind"] == "InstanceReturned":
            self._plot.owners.rename(name, cause["member_id"])
            return
        self._plot.owners.lose(name, *how_lost(at, cause))

    def _maybe_end(self, at: int, cause: Cause) -> None:
        """Whether everyone is where the newest target wants it."""
        plot = self._plot
        running = plot.running
        if running is None:
            return
        if not self._members:
            plot.end(at, End.EMPTY, cause)
            running.prepared_by = cause
            if not plot.owners.is_known:
                plot.owners.begin({})
        elif self._is_settled():
            running.members = tuple(self._members)
            self._finish(running)
            plot.owners.is_known = True  # every member said in this epoch what it has
            wanted = {partition for one in self._members.values() for partition in one.target}
            plot.owners.keep_wanted(wanted)
            plot.end(at, End.STABLE, cause)

    def _is_settled(self) -> bool:
        return (
            self._target_epoch == self._plot.generation
            and len(self._members) >= self._size
            and all(map(self._has_arrived, self._members.values()))
        )

    def _finish(self, running: Rebalance) -> None:
        """What the rebalance did, as far as it got."""
        gained = {move.partition for move in running.moves}
        running.stayed = max(0, self._plot.owners.count() - len(gained))
        running.is_assignment_known = self._plot.owners.is_known


HANDLERS: dict[str, Callable[[ConsumerFollower, int, Details, Cause], None]] = {
    "ConsumerGroupLoaded": ConsumerFollower.group_loaded,
    "ConsumerGroupStored": ConsumerFollower.epoch_grew,
    "ConsumerGroupDropped": ConsumerFollower.group_dropped,
    "ConsumerMemberStored": ConsumerFollower.member_stored,
    "ConsumerMemberDropped": ConsumerFollower.member_dropped,
    "TargetStored": ConsumerFollower.target_stored,
    "TargetDropped": ConsumerFollower.target_dropped,
    "TargetEpochStored": ConsumerFollower.target_computed,
    "CurrentAssignmentStored": ConsumerFollower.current_stored,
    "CurrentAssignmentDropped": ConsumerFollower.current_dropped,
}
