"""From the documents of the journal to the account of a group's rebalances."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kohort.model.topics import TopicPartition
from kohort.story.documents import GAP, Document, assigned_partitions
from kohort.story.members import Roll
from kohort.story.owners import Ownership
from kohort.story.rebalance import (
    UNKNOWN_CAUSE,
    Arrival,
    Cause,
    Delay,
    End,
    Incident,
    Lost,
    Rebalance,
    Removal,
    Replacement,
    Story,
)

Details = Mapping[str, Any]

_CONSUMER = "consumer"


def tell(group_id: str, documents: Iterable[Document]) -> Story:
    """The story of one group, from its documents and the journal's gaps in the order of the journal.

    Documents that lack something are counted and left out; events it does not know are left out.
    """
    teller = _Teller(group_id)
    for document in documents:
        teller.hear(document)
    return teller.finish()


class _Teller:
    """Follows one group. What happens while no rebalance is preparing belongs to the draft of the next.

    A command that starts a rebalance first says who came or went, and only then that it starts.
    """

    def __init__(self, group_id: str) -> None:
        self._story = Story(group_id)
        self._roll = Roll()
        self._owners = Ownership()
        self._generation: int | None = None
        self._subscribed: list[str] | None = None
        self._is_consumer = True
        self._running: Rebalance | None = None
        self._eager_since: int | None = None  # the first start since the group was last stable
        self._draft = self._new_draft()

    def _new_draft(self) -> Rebalance:
        return Rebalance(0, UNKNOWN_CAUSE, members_before=tuple(self._roll.members))

    def hear(self, document: Document) -> None:
        if self._story.first_at is None:
            self._story.first_at = document.at
        handle = _HANDLERS.get(document.event)
        if handle is None:
            return
        try:
            handle(self, document.at, document.details, document.cause)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._story.unreadable += 1

    def finish(self) -> Story:
        if self._running is not None:
            self._running.awaited = self._awaited(self._running)
        self._story.people = self._roll.people
        self._story.unowned = self._owners.still_unowned()
        return self._story

    def _awaited(self, running: Rebalance) -> tuple[str, ...]:
        if running.prepared_at is None:
            there, waited_for = set(running.arrivals), (*self._roll.members, *self._roll.pending)
        else:
            there, waited_for = {one.member_id for one in running.syncs}, running.members
        return tuple(one for one in waited_for if one not in there)

    # --- where we are -------------------------------------------------------------------------

    @property
    def _scene(self) -> Rebalance:
        """What a coming or going belongs to: the rebalance that is being prepared, or the next one."""
        running = self._running
        return self._draft if running is None or running.prepared_at is not None else running

    def _after(self, at: int) -> int:
        """How long after its start something happened; what leads to a start comes right before it."""
        scene = self._scene
        return 0 if scene is self._draft else at - scene.started_at

    def _start(self, at: int, cause: Cause) -> Rebalance:
        started = self._draft
        started.started_at, started.cause = at, cause
        started.generation_before = self._generation
        self._running = started
        self._draft = self._new_draft()
        self._story.rebalances.append(started)
        if self._eager_since is None:
            self._eager_since = at
        return started

    def _known_to_run(self, at: int) -> Rebalance:
        """The running rebalance; one whose start was not seen starts here."""
        if self._running is not None:
            return self._running
        started = self._start(at, UNKNOWN_CAUSE)
        started.is_partial = True
        return started

    def _end(self, at: int, end: End, cause: Cause) -> None:
        """Whatever ran has come to this end."""
        if self._running is not None:
            self._running.end, self._running.ended_at, self._running.end_cause = end, at, cause
        self._running = None
        self._draft = self._new_draft()

    def _mention(self, at: int, event: str, sentence: str) -> None:
        self._story.incidents.append(Incident(at, event, sentence))

    # --- a group comes and goes ---------------------------------------------------------------

    def group_created(self, at: int, details: Details, cause: Cause) -> None:
        self._begin_anew(0)
        self._mention(at, "GroupCreated", f"the group was made: {cause['sentence']}")

    def group_loaded(self, at: int, details: Details, cause: Cause) -> None:
        self._end(at, End.LOST, cause)
        image = details["image"]
        self._begin_anew(0 if image is None else int(image["generation"]))
        if image is not None and image["members"]:
            self._roll.take(image)
            self._is_consumer = image["protocol_type"] == _CONSUMER
            members = ((one["member_id"], one["assignment"]) for one in image["members"])
            self._owners.begin(self._assigned(members))
        self._draft = self._new_draft()
        self._mention(at, "GroupLoaded", f"the coordinator started: {cause['sentence']}")

    def group_died(self, at: int, details: Details, cause: Cause) -> None:
        self._end(at, End.LOST, cause)
        what = "the broker stopped serving the group"
        if cause["kind"] == "AppendRefused":
            what = f"the coordinator goes back to what is stored: {cause['sentence']}"
        self._mention(at, "GroupDied", what)

    def group_removed(self, at: int, details: Details, cause: Cause) -> None:
        self._begin_anew(0)
        self._story.removed = cause
        self._mention(at, "GroupTombstoned", f"the group is gone: {cause['sentence']}")

    def _begin_anew(self, generation: int) -> None:
        """A group without members, of this generation, is all there is."""
        self._roll.clear()
        self._owners.begin({})
        self._generation = generation
        self._eager_since = None
        self._story.removed = None
        self._draft = self._new_draft()

    def offsets_deleted(self, at: int, details: Details, cause: Cause) -> None:
        count = len(details["partitions"])
        what = "1 partition" if count == 1 else f"{count} partitions"
        self._mention(at, "OffsetsDeleted", f"offsets of {what} are gone: {cause['sentence']}")

    def journal_gap(self, at: int, details: Details, cause: Cause) -> None:
        dropped = int(details["dropped"])
        self._story.dropped += dropped
        (self._running or self._draft).dropped += dropped
        self._mention(at, GAP, f"the journal lost {dropped} events here, of this group or of others")

    # --- members ------------------------------------------------------------------------------

    def id_reserved(self, at: int, details: Details, cause: Cause) -> None:
        self._roll.reserve(details["member_id"], cause["client_id"])

    def id_dropped(self, at: int, details: Details, cause: Cause) -> None:
        self._roll.pending.pop(details["member_id"], None)
        if self._scene is not self._draft:
            self._scene.unused_ids.append(Removal(details["member_id"], self._after(at), cause))

    def member_added(self, at: int, details: Details, cause: Cause) -> None:
        self._roll.add(details)
        self._is_consumer = details["protocol_type"] == _CONSUMER
        self._arrive(Arrival(details["member_id"], self._after(at), True, cause["reason"]))

    def member_updated(self, at: int, details: Details, cause: Cause) -> None:
        self._roll.claim(details["member_id"], details["protocols"])

    def join_parked(self, at: int, details: Details, cause: Cause) -> None:
        self._arrive(Arrival(details["member_id"], self._after(at), False, cause["reason"]))

    def _arrive(self, arrival: Arrival) -> None:
        """Who joins twice in one rebalance gave up waiting for its first answer: the second one counts."""
        arrivals = self._scene.arrivals
        arrivals.pop(arrival.member_id, None)
        arrivals[arrival.member_id] = arrival

    def member_replaced(self, at: int, details: Details, cause: Cause) -> None:
        old, new, instance = details["old_member_id"], details["member_id"], details["instance_id"]
        self._roll.replace(old, new, instance)
        self._owners.rename(old, new)
        scene = self._scene
        scene.arrivals.pop(old, None)
        scene.replacements.append(Replacement(instance, old, new))

    def member_removed(self, at: int, details: Details, cause: Cause) -> None:
        member_id = details["member_id"]
        self._roll.remove(member_id)
        silent_ms = _silent_ms(cause)
        self._owners.lose(member_id, Lost.SILENT if silent_ms else Lost.GONE, at - silent_ms)
        self._scene.arrivals.pop(member_id, None)
        self._scene.removals.append(Removal(member_id, self._after(at), cause))

    def leader_chosen(self, at: int, details: Details, cause: Cause) -> None:
        self._roll.leader = details["leader"]

    # --- phases -------------------------------------------------------------------------------

    def rebalance_started(self, at: int, details: Details, cause: Cause) -> None:
        interrupted = self._running
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
        running.generation, running.protocol = self._generation, details["protocol"]
        running.leader = self._roll.leader
        running.members = tuple(self._roll.members)
        self._draft = self._new_draft()

    def generation_emptied(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        self._follow(int(details["generation"]))
        running.generation, running.prepared_by = self._generation, cause
        self._roll.clear()
        self._eager_since = None
        self._end(at, End.EMPTY, cause)
        if not self._owners.is_known:
            self._owners.begin({})

    def _follow(self, generation: int) -> None:
        """Take over the number of a generation; if some were missed, so were their assignments."""
        if self._generation is not None and generation != self._generation + 1:
            self._owners.forget()
        self._generation = generation

    def sync_parked(self, at: int, details: Details, cause: Cause) -> None:
        running = self._known_to_run(at)
        begun = running.started_at if running.prepared_at is None else running.prepared_at
        running.syncs.append(Arrival(details["member_id"], at - begun))
        if cause["is_leader"]:
            self._roll.leader = running.leader = details["member_id"]

    def sync_served(self, at: int, details: Details, cause: Cause) -> None:
        """A member took its assignment late: its partitions had to wait for it."""
        last = self._story.rebalances[-1] if self._story.rebalances else None
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
        if self._is_consumer and self._owners.is_known:
            eager_since = None if running.is_cooperative else self._eager_since
            running.moves, running.stayed, running.unowned = self._owners.assign(assigned, at, eager_since)
            running.is_assignment_known = True
        else:
            self._owners.begin(assigned)
        if self._subscribed is not None:
            self._owners.keep_only(self._subscribed)
        self._eager_since = None
        self._roll.members = dict.fromkeys(member_id for member_id, _ in details["assignments"])
        self._end(at, End.STABLE, cause)

    def _assigned(self, assignments: Iterable[tuple[str, str]]) -> dict[TopicPartition, str]:
        if not self._is_consumer:
            return {}
        return {one: member for member, blob in assignments for one in assigned_partitions(blob)}

    def _is_cooperative(self, running: Rebalance) -> bool:
        """Whether members kept their partitions meanwhile: they say so when they join again."""
        holders = self._owners.holders()
        had_some = [one for one in running.arrivals if one in holders]
        if not had_some:
            return "cooperative" in (running.protocol or "")
        return any(self._roll.kept_partitions(one, running.protocol) for one in had_some)

    def group_stored(self, at: int, details: Details, cause: Cause) -> None:
        image = details["image"]
        self._roll.meet_all(image)
        if self._generation is None:
            self._generation = int(image["generation"])
        if cause["kind"] == "InstanceReturned" and self._running is None:
            self._draft = self._new_draft()
            self._mention(at, "MemberReplaced", f"{cause['sentence']}; no rebalance was needed")


def _silent_ms(cause: Cause) -> int:
    """For how long a member that is removed had done nothing, as far as its cause tells."""
    if cause["kind"] == "SyncTimedOut":  # it never took what it was assigned
        return int(cause["timeout_ms"])
    return int(cause.get("silent_ms", 0))


_HANDLERS: dict[str, Callable[[_Teller, int, Details, Cause], None]] = {
    "GroupCreated": _Teller.group_created,
    "GroupLoaded": _Teller.group_loaded,
    "GroupTombstoned": _Teller.group_removed,
    "GroupDied": _Teller.group_died,
    "IdReserved": _Teller.id_reserved,
    "IdDropped": _Teller.id_dropped,
    "MemberAdded": _Teller.member_added,
    "MemberUpdated": _Teller.member_updated,
    "JoinParked": _Teller.join_parked,
    "MemberReplaced": _Teller.member_replaced,
    "MemberRemoved": _Teller.member_removed,
    "LeaderChosen": _Teller.leader_chosen,
    "RebalanceStarted": _Teller.rebalance_started,
    "InitialDelayExtended": _Teller.join_phase_prolonged,
    "JoinPhaseExtended": _Teller.join_phase_prolonged,
    "GenerationStarted": _Teller.generation_started,
    "GenerationEmptied": _Teller.generation_emptied,
    "SyncParked": _Teller.sync_parked,
    "SyncServed": _Teller.sync_served,
    "AssignmentReceived": _Teller.assignment_received,
    "GroupStored": _Teller.group_stored,
    "OffsetsDeleted": _Teller.offsets_deleted,
    GAP: _Teller.journal_gap,
}
