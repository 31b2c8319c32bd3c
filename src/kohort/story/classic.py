"""A classic group, followed through the documents of the journal."""

from collections.abc import Callable, Iterable

from kohort.model.topics import TopicPartition
from kohort.story.documents import assigned_partitions
from kohort.story.plot import Details, Plot
from kohort.story.rebalance import (
    UNKNOWN_CAUSE,
    Arrival,
    Cause,
    Delay,
    End,
    GroupKind,
    Lost,
    Rebalance,
    Removal,
    Replacement,
)

_CONSUMER = "consumer"


class ClassicFollower:
    """Follows the rebalances of one classic group: members join, the leader brings the assignment."""

    def __init__(self, plot: Plot) -> None:
        self._plot = plot
        self._subscribed: list[str] | None = None
        self._is_consumer = True
        self._eager_since: int | None = None  # the first start since the group was last stable

    def awaited(self, running: Rebalance) -> tuple[str, ...]:
        """Whom a running rebalance waits for."""
        roll = self._plot.roll
        if running.prepared_at is None:
            there, waited_for = set(running.arrivals), (*roll.members, *roll.pending)
        else:
            there, waited_for = {one.member_id for one in running.syncs}, running.members
        return tuple(one for one in waited_for if one not in there)

    # --- where we are -------------------------------------------------------------------------

    @property
    def _scene(self) -> Rebalance:
        """What a coming or going belongs to: the rebalance that is being prepared, or the next one."""
        running = self._plot.running
        return self._plot.draft if running is None or running.prepared_at is not None else running

    def _after(self, at: int) -> int:
        return self._plot.after(at, self._scene)

    def _start(self, at: int, cause: Cause) -> Rebalance:
        if self._eager_since is None:
            self._eager_since = at
        return self._plot.start(at, cause)

    def _known_to_run(self, at: int) -> Rebalance:
        """The running rebalance; one whose start was not seen starts here."""
        if self._plot.running is not None:
            return self._plot.running
        started = self._start(at, UNKNOWN_CAUSE)
        started.is_partial = True
        return started

    # --- a group comes and goes ---------------------------------------------------------------

    def group_created(self, at: int, details: Details, cause: Cause) -> None:
        self._begin_empty(0)
        self._plot.mention(at, "GroupCreated", f"the group was made: {cause['sentence']}")

    def group_loaded(self, at: int, details: Details, cause: Cause) -> None:
        has_changed_kind = cause["kind"] != "PartitionLoaded"
        self._plot.end(at, End.RESTARTED if has_changed_kind else End.LOST, cause)
        orphans = self._plot.owners.orphans if has_changed_kind else {}
        image = details["image"]
        self._begin_empty(0 if image is None else int(image["generation"]))
        if image is not None and image["members"]:
            self._plot.roll.take(image)
            self._is_consumer = image["protocol_type"] == _CONSUMER
            members = ((one["member_id"], one["assignment"]) for one in image["members"])
            self._plot.owners.begin(self._assigned(members), orphans)
        self._plot.drop_draft()
        what = "this is a classic group now" if has_changed_kind else coordinator_loaded(cause)
        self._plot.mention(at, "GroupLoaded", f"{what}: {cause['sentence']}")

    def group_died(self, at: int, details: Details, cause: Cause) -> None:
        running = self._plot.running
        if running is not None and running.kind is GroupKind.CLASSIC:  # a consumer group goes on when loaded
            self._plot.end(at, End.LOST, cause)
        what = "the broker stopped serving the group"
        if cause["kind"] == "AppendRefused":
            what = f"the coordinator goes back to what is stored: {cause['sentence']}"
        self._plot.mention(at, "GroupDied", what)

    def group_removed(self, at: int, details: Details, cause: Cause) -> None:
        if cause["kind"] == "KindChanged":
            self._plot.end(at, End.RESTARTED, cause)
            self._eager_since = None
            self._plot.mention(at, "KindChanged", str(cause["sentence"]))
            return
        self._begin_empty(0)
        self._plot.story.removed = cause
        self._plot.mention(at, "GroupTombstoned", f"the group is gone: {cause['sentence']}")

    def _begin_empty(self, generation: int) -> None:
        self._plot.begin_empty(generation)
        self._eager_since = None

    # --- members ------------------------------------------------------------------------------

    def id_reserved(self, at: int, details: Details, cause: Cause) -> None:
        self._plot.roll.reserve(details["member_id"], cause["client_id"])

    def id_dropped(self, at: int, details: Details, cause: Cause) -> None:
        self._plot.roll.pending.pop(details["member_id"], None)
        if self._scene is not self._plot.draft:
            self._scene.unused_ids.append(Removal(details["member_id"], self._after(at), cause))

    def member_added(self, at: int, details: Details, cause: Cause) -> None:
        self._plot.roll.add(details)
        self._is_consumer = details["protocol_type"] == _CONSUMER
        self._arrive(Arrival(details["member_id"], self._after(at), True, cause["reason"]))

    def member_updated(self, at: int, details: Details, cause: Cause) -> None:
        self._plot.roll.claim(details["member_id"], details["protocols"])

    def join_parked(self, at: int, details: Details, cause: Cause) -> None:
        self._arrive(Arrival(details["member_id"], self._after(at), False, cause["reason"]))

    def _arrive(self, arrival: Arrival) -> None:
        """Who joins twice in one rebalance gave up waiting for its first answer: the second one counts."""
        arrivals = self._scene.arrivals
        arrivals.pop(arrival.member_id, None)
        arrivals[arrival.member_id] = arrival

    def member_replaced(self, at: int, details: Details, cause: Cause) -> None:
        old, new, instance = details["old_member_id"], details["member_id"], details["instance_id"]
        self._plot.roll.replace(old, new, instance)
        self._plot.owners.rename(old, new)
        scene = self._scene
        scene.arrivals.pop(old, None)
        scene.replacements.append(Replacement(instance, old, new))

    def member_removed(self, at: int, details: Details, cause: Cause) -> None:
        member_id = details["member_id"]
        self._plot.roll.remove(member_id)
        self._plot.owners.lose(member_id, *how_lost(at, cause))
        self._scene.arrivals.pop(member_id, None)
        self._scene.removals.append(Removal(member_id, self._after(at), cause))

    def leader_chosen(self, at: int, details: Details, cause: Cause) -> None:
        self._plot.roll.leader = details["leader"]

    # --- phases -------------------------------------------------------------------------------

    def rebalance_started(self, at: int, details: Details, cause: Cause) -> None:
        interrupted = self._plot.running
        if interrupted is not None:
            # From the join phase no other starts: what ended it is missing.
            interrupted.end = End.LOST if interrupted.prepared_at is None else End.RESTARTED
            interrupted.ended_at, interrupted.end_cause = at, cause
        self._start(at, cause)

    def join_phase_prolonged(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        running.delays.append(Delay(at - running.started_at, str(cause["sentence"])))

    def generation_started(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        self._follow(int(details["generation"]))
        self._subscribed = details["subscribed"]
        running.prepared_at, running.prepared_by = at, cause
        running.generation, running.protocol = self._plot.generation, details["protocol"]
        running.leader = self._plot.roll.leader
        running.members = tuple(self._plot.roll.members)
        self._plot.drop_draft()

    def generation_emptied(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        self._follow(int(details["generation"]))
        running.generation, running.prepared_by = self._plot.generation, cause
        self._plot.roll.clear()
        self._eager_since = None
        self._plot.end(at, End.EMPTY, cause)
        if not self._plot.owners.is_known:
            self._plot.owners.begin({})

    def _follow(self, generation: int) -> None:
        """Take over the number of a generation; if some were missed, so were their assignments."""
        if self._plot.generation is not None and generation != self._plot.generation + 1:
            self._plot.owners.forget()
        self._plot.generation = generation

    def sync_parked(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        begun = running.started_at if running.prepared_at is None else running.prepared_at
        running.syncs.append(Arrival(details["member_id"], at - begun))
        if cause["is_leader"]:
            self._plot.roll.leader = running.leader = details["member_id"]

    def sync_served(self, at: int, details: Details, cause: Cause) -> None:
        """A member took its assignment late: its partitions had to wait for it."""
        last = self._plot.story.rebalances[-1] if self._plot.story.rebalances else None
        if last is None or last.prepared_at is None:
            return
        member_id = details["member_id"]
        last.syncs.append(Arrival(member_id, at - last.prepared_at))
        last.unowned = [one._replace(until=at) if one.owner == member_id else one for one in last.unowned]

    def assignment_received(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        running.is_readable = self._is_consumer
        running.is_cooperative = self._is_cooperative(running)
        assigned = self._assigned(details["assignments"])
        if self._is_consumer and self._plot.owners.is_known:
            eager_since = None if running.is_cooperative else self._eager_since
            running.moves, running.stayed, running.unowned = self._plot.owners.assign(
                assigned, at, eager_since
            )
            running.is_assignment_known = True
        else:
            self._plot.owners.begin(assigned)
        if self._subscribed is not None:
            self._plot.owners.keep_only(self._subscribed)
        self._eager_since = None
        self._plot.roll.members = dict.fromkeys(member_id for member_id, _ in details["assignments"])
        self._plot.end(at, End.STABLE, cause)

    def _assigned(self, assignments: Iterable[tuple[str, str]]) -> dict[TopicPartition, str]:
        if not self._is_consumer:
            return {}
        return {one: member for member, blob in assignments for one in assigned_partitions(blob)}

    def _is_cooperative(self, running: Rebalance) -> bool:
        """Whether members kept their partitions meanwhile: they say so when they join again."""
        holders = self._plot.owners.holders()
        had_some = [one for one in running.arrivals if one in holders]
        if not had_some:
            return "cooperative" in (running.protocol or "")
        return any(self._plot.roll.kept_partitions(one, running.protocol) for one in had_some)

    def group_stored(self, at: int, details: Details, cause: Cause) -> None:
        image = details["image"]
        self._plot.roll.meet_all(image)
        if self._plot.generation is None:
            self._plot.generation = int(image["generation"])
        if cause["kind"] == "InstanceReturned" and self._plot.running is None:
            self._plot.drop_draft()
            self._plot.mention(at, "MemberReplaced", f"{cause['sentence']}; no rebalance was needed")


def coordinator_loaded(cause: Cause) -> str:
    """How a group came to the node that has read it from the log."""
    return "the coordinator started" if cause.get("reason") is None else "the coordinator moved"


def how_lost(at: int, cause: Cause) -> tuple[Lost, int]:
    """How the partitions of a member that is removed lost their owner, and since when."""
    silent_ms = int(cause.get("silent_ms", 0))
    if cause["kind"] == "SyncTimedOut":  # it never took what it was assigned
        silent_ms = int(cause["timeout_ms"])
    return Lost.SILENT if silent_ms else Lost.GONE, at - silent_ms


HANDLERS: dict[str, Callable[[ClassicFollower, int, Details, Cause], None]] = {
    "GroupCreated": ClassicFollower.group_created,
    "GroupLoaded": ClassicFollower.group_loaded,
    "GroupTombstoned": ClassicFollower.group_removed,
    "GroupDied": ClassicFollower.group_died,
    "IdReserved": ClassicFollower.id_reserved,
    "IdDropped": ClassicFollower.id_dropped,
    "MemberAdded": ClassicFollower.member_added,
    "MemberUpdated": ClassicFollower.member_updated,
    "JoinParked": ClassicFollower.join_parked,
    "MemberReplaced": ClassicFollower.member_replaced,
    "MemberRemoved": ClassicFollower.member_removed,
    "LeaderChosen": ClassicFollower.leader_chosen,
    "RebalanceStarted": ClassicFollower.rebalance_started,
    "InitialDelayExtended": ClassicFollower.join_phase_prolonged,
    "JoinPhaseExtended": ClassicFollower.join_phase_prolonged,
    "GenerationStarted": ClassicFollower.generation_started,
    "GenerationEmptied": ClassicFollower.generation_emptied,
    "SyncParked": ClassicFollower.sync_parked,
    "SyncServed": ClassicFollower.sync_served,
    "AssignmentReceived": ClassicFollower.assignment_received,
    "GroupStored": ClassicFollower.group_stored,
}
