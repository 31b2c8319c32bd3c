"""Rebalances that do not end well, static members, and what happens to a group as a whole."""

from tests.unit.story.journal import DELAY, Journal, assignment, tp

from kohort.groups.commands import Leaver, TopicDeleted
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId, MemberId, TopicName
from kohort.story.rebalance import End, Move

# --- rebalances that do not end well ------------------------------------------------------------


def test_a_rebalance_that_is_interrupted_says_what_began_again(journal: Journal) -> None:
    journal.join("c", "a", "b")  # a generation without an assignment yet
    journal.join("d", "a", "b", "c")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c", "d")
    interrupted, told = journal.story().rebalances[-2:]
    assert interrupted.end is End.RESTARTED
    assert interrupted.end_cause == told.cause
    assert told.cause["member_id"] == journal.id_of("d")
    assert told.members_added == (journal.id_of("d"),)
    assert {one.since for one in told.unowned} == {interrupted.started_at}


def test_an_assignment_that_is_too_large_starts_the_rebalance_again(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": b"x" * 2_000_000})
    interrupted, told = journal.story().rebalances[-2:]
    assert interrupted.end is End.RESTARTED
    assert told.cause["kind"] == "AppendRefused"
    assert told.end is End.RUNNING


def test_a_log_that_fails_takes_the_group_back_to_what_is_stored(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.scenario.fail_next_append(ErrorCode.KAFKA_STORAGE_ERROR)
    journal.assign("a", {"a": assignment(0)})
    assert [one.sentence for one in journal.story().incidents[-2:]] == [
        "the coordinator goes back to what is stored: the log refused the write: KAFKA_STORAGE_ERROR",
        "the coordinator started: loaded with 2 members",
    ]


def test_a_running_rebalance_says_whom_it_waits_for(journal: Journal) -> None:
    journal.join("c")
    journal.do(lambda: journal.scenario.join_once("d"))  # has an id, and has not come back with it
    told = journal.last()
    assert (told.end, told.total_ms, told.preparing_ms) == (End.RUNNING, None, None)
    assert told.awaited == (journal.id_of("a"), journal.id_of("b"), journal.id_of("d"))


def test_a_generation_without_an_assignment_waits_for_those_who_have_not_synced(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.do(lambda: journal.scenario.sync("b"))
    told = journal.last()
    assert told.end is End.RUNNING
    assert set(told.awaited) == {journal.id_of("a"), journal.id_of("c")}


def test_an_id_that_was_waited_for_in_vain_is_mentioned(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.join_once("d", session_timeout=6_000))
    journal.join("a", "b")
    for _ in range(7):
        journal.sleep(1_000)
    told = journal.last()
    assert [one.cause["kind"] for one in told.unused_ids] == ["PendingIdExpired"]
    assert told.prepared_by is not None
    assert told.prepared_by["kind"] == "PendingIdExpired"


def test_an_id_that_nobody_waited_for_is_not_mentioned(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.join_once("d", session_timeout=6_000))
    for _ in range(7):
        journal.sleep(1_000)
        journal.scenario.heartbeat("a")
        journal.scenario.heartbeat("b")
    assert [one.unused_ids for one in journal.story().rebalances] == [[]]


# --- static members -----------------------------------------------------------------------------


def test_a_static_restart_without_a_rebalance_is_an_incident(static: Journal) -> None:
    old = static.id_of("b")
    static.do(lambda: static.scenario.join("b", member_id=""))
    story = static.story()
    assert len(story.rebalances) == 1
    assert story.incidents[-1].event == "MemberReplaced"
    assert story.people[static.id_of("b")] == story.people[old]._replace(member_id=static.id_of("b"))
    static.do(lambda: static.scenario.join("a", changed=True), lambda: static.scenario.join("b"))
    static.assign("a", {"a": assignment(0, 1), "b": assignment(2, 3)}, "b")
    told = static.last()
    assert (told.replacements, told.moves, told.stayed) == ([], [], 4)


def test_a_static_restart_in_a_rebalance_is_a_replacement(static: Journal) -> None:
    old = static.id_of("b")
    static.do(
        lambda: static.scenario.join("a", changed=True),
        lambda: static.scenario.join("b"),
        lambda: static.scenario.join("b", member_id=""),
        lambda: static.scenario.join("a"),
    )
    told = static.story().rebalances[-1]
    assert [(one.old_member_id, one.member_id) for one in told.replacements] == [(old, static.id_of("b"))]
    assert (told.members_added, told.members_removed) == ((), ())


def test_a_static_leader_that_restarts_still_leads() -> None:
    journal = Journal()
    journal.do(lambda: journal.scenario.join("a", instance="i"))
    journal.sleep(2 * DELAY)
    journal.do(lambda: journal.scenario.join("a", member_id=""))
    journal.sleep(2 * DELAY)
    assert journal.last().leader == journal.id_of("a")


def test_a_replacement_that_could_not_be_stored_is_forgotten(static: Journal) -> None:
    old = static.id_of("b")
    static.scenario.fail_next_append(ErrorCode.KAFKA_STORAGE_ERROR)
    static.do(lambda: static.scenario.join("b", member_id=""))
    static.do(lambda: static.scenario.leave_as(Leaver(MemberId(""), InstanceId("i"))))
    told = static.last()
    assert told.replacements == []
    assert [one.member_id for one in told.removals] == [old]


# --- the group as a whole -----------------------------------------------------------------------


def test_a_restart_of_the_broker_cuts_a_rebalance_off(journal: Journal) -> None:
    journal.join("c")
    journal.do(journal.scenario.restart)
    story = journal.story()
    assert story.rebalances[-1].end is End.LOST
    assert story.incidents[-1].event == "GroupLoaded"
    journal.join("a", "b")  # the leader joins again: from here on the story goes on as before
    journal.assign("a", {"a": assignment(0), "b": assignment(1, 2, 3)}, "b")
    assert journal.last().moves == [Move(tp(1), journal.id_of("a"), journal.id_of("b"))]


def test_a_group_that_is_handed_over_is_mentioned(journal: Journal) -> None:
    journal.join("c")
    journal.do(journal.scenario.unload)
    story = journal.story()
    assert story.rebalances[-1].end is End.LOST
    assert story.incidents[-1] == story.incidents[-1]._replace(
        event="GroupDied", sentence="the broker stopped serving the group"
    )


def test_a_deleted_group_is_told_to_its_end(journal: Journal) -> None:
    scenario = journal.scenario
    journal.do(
        lambda: scenario.leave("a", "b"),
        lambda: scenario.commit(None, {("t", 0): 7}),
        lambda: scenario.admin.delete_groups("g"),
    )
    story = journal.story()
    assert story.removed is not None
    assert story.removed["kind"] == "DeletionRequested"
    assert [one.event for one in story.incidents[-2:]] == ["OffsetsDeleted", "GroupTombstoned"]
    assert story.unowned == []


def test_offsets_that_go_with_their_topic_are_mentioned(journal: Journal) -> None:
    journal.do(
        lambda: journal.scenario.commit("a", {("t", 0): 7, ("t", 1): 7}),
        lambda: journal.scenario.order(TopicDeleted(TopicName("t"))),
    )
    assert journal.story().incidents[-1].sentence == "offsets of 2 partitions are gone: topic t was deleted"


def test_a_group_with_offsets_only_is_loaded_without_members() -> None:
    journal = Journal()
    journal.do(lambda: journal.scenario.commit(None, {("t", 0): 7}), journal.scenario.restart)
    story = journal.story()
    assert (story.rebalances, story.incidents[-1].event) == ([], "GroupLoaded")
