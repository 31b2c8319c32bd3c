"""What the journal does not have: beginnings, lost events, things it cannot know."""

import pytest
from tests.unit.story.journal import DELAY, Journal, assignment

from kohort.story.rebalance import End
from kohort.story.tell import tell

# --- what the journal does not have -------------------------------------------------------------


def test_a_story_that_begins_in_the_middle_says_so(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    whole = journal.documents
    started = [at for at, one in enumerate(whole) if one.event == "GenerationStarted"][-1]
    (told,) = tell("g", whole[started:]).rebalances
    assert told.is_partial
    assert told.cause["kind"] == "Unknown"
    assert not told.is_assignment_known
    assert not told.is_whole
    assert told.leader == journal.id_of("a")


@pytest.mark.parametrize("event", ["IdReserved", "SyncParked", "AssignmentReceived"])
def test_a_story_can_begin_at_any_event(journal: Journal, event: str) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    first = next(at for at, one in enumerate(journal.documents) if one.event == event)
    story = tell("g", journal.documents[first:])
    assert story.rebalances[-1].end is End.STABLE
    assert story.unreadable == 0


def test_a_late_sync_alone_is_no_rebalance(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b")
    journal.do(lambda: journal.scenario.sync("c"))
    served = [one for one in journal.documents if one.event == "SyncServed"]
    assert tell("g", served).rebalances == []


def test_a_group_that_was_seen_empty_has_known_owners_from_then_on(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("a", "b"))
    journal.join("c")
    journal.sleep(2 * DELAY)
    journal.assign("c", {"c": assignment(0)})
    emptied = next(at for at, one in enumerate(journal.documents) if one.event == "GenerationEmptied")
    assert [one.is_whole for one in tell("g", journal.documents[emptied:]).rebalances] == [False, True]


def test_lost_events_are_counted_where_they_are_missing(journal: Journal) -> None:
    journal.lose(7)
    journal.join("c")
    journal.lose(5)
    story = journal.story()
    assert [one.dropped for one in story.rebalances] == [0, 12]
    assert story.dropped == 12
    assert [one.event for one in story.incidents if one.event == "JournalGap"] == ["JournalGap"] * 2


def test_after_a_generation_that_was_missed_what_moved_is_unknown(journal: Journal) -> None:
    before = list(journal.documents)
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0), "b": assignment(1), "c": assignment(2, 3)}, "b", "c")
    after = len(journal.documents)
    journal.do(lambda: journal.scenario.leave("c"))
    journal.join("a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2, 3)}, "b")
    told = tell("g", before + journal.documents[after:]).rebalances[-1]
    assert not told.is_assignment_known
    assert told.moves == []


def test_a_start_in_the_middle_of_a_join_phase_means_that_its_end_is_missing(journal: Journal) -> None:
    journal.join("c")
    starts = [one for one in journal.documents if one.event == "RebalanceStarted"]
    first, second = tell("g", starts).rebalances
    assert (first.end, second.end) == (End.LOST, End.RUNNING)


def test_documents_that_lack_something_are_counted_and_left_out(journal: Journal) -> None:
    broken = [one._replace(details={}) for one in journal.documents if one.event == "MemberAdded"]
    strange = [journal.documents[0]._replace(event="TeapotBoiled")]
    story = tell("g", [*strange, *journal.documents, *broken])
    assert story.unreadable == 2
    assert len(story.rebalances) == 1
    assert story.first_at == journal.documents[0].at


def test_a_stored_group_tells_the_generation_of_a_story_that_begins_after_it(journal: Journal) -> None:
    stored = next(at for at, one in enumerate(journal.documents) if one.event == "GroupStored")
    journal.join("c")
    story = tell("g", journal.documents[stored:])
    assert story.rebalances[-1].generation_before == 1
    assert story.people[journal.id_of("b")].client_id == "b"


def test_assignments_of_other_kinds_of_groups_are_not_guessed_at() -> None:
    journal = Journal()
    journal.do(lambda: journal.scenario.join("a", protocol_type="connect", protocols=[("default", b"x")]))
    journal.sleep(2 * DELAY)
    journal.assign("a", {"a": assignment(0)})
    told = journal.last()
    assert not told.is_readable
    assert told.moves == []
    assert told.is_whole


def test_what_is_deleted_by_an_administrator_is_mentioned(journal: Journal) -> None:
    scenario = journal.scenario
    journal.do(
        lambda: scenario.leave("a", "b"),
        lambda: scenario.commit(None, {("t", 0): 7}),
        lambda: scenario.admin.delete_offsets(("t", 0)),
    )
    assert journal.story().incidents[-1].sentence == (
        "offsets of 1 partition are gone: an administrator deleted offsets"
    )


def test_a_story_that_begins_with_an_assignment_knows_the_members_from_then_on(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    first = next(at for at, one in enumerate(journal.documents) if one.event == "AssignmentReceived")
    told = tell("g", journal.documents[first:]).rebalances[-1]
    assert told.members_before == (journal.id_of("a"), journal.id_of("b"))
    assert told.members_added == (journal.id_of("c"),)
