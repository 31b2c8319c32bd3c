"""The story of a group, from what the shipped core really wrote: who came, who went, what moved."""

from tests.unit.story.journal import DELAY, TICK, Journal, assignment, owning, tp

from kohort.story.rebalance import End, Lost, Move, Rebalance


def kinds(rebalance: Rebalance) -> list[str]:
    return [one.cause["kind"] for one in rebalance.removals]


# --- the first rebalance ------------------------------------------------------------------------


def test_the_first_rebalance_of_a_group_is_started_by_its_first_member(journal: Journal) -> None:
    (told,) = journal.story().rebalances
    assert (told.cause["kind"], told.cause["member_id"]) == ("MemberArrived", journal.id_of("a"))
    assert [(one.member_id, one.is_new) for one in told.arrivals.values()] == [
        (journal.id_of("a"), True),
        (journal.id_of("b"), True),
    ]
    assert told.last_arrival is not None
    assert told.last_arrival == (told.arrivals[journal.id_of("b")], TICK)
    assert (told.generation_before, told.generation, told.protocol) == (0, 1, "range")
    assert told.leader == journal.id_of("a")
    assert told.members_added == (journal.id_of("a"), journal.id_of("b"))


def test_the_phases_of_a_rebalance_add_up(journal: Journal) -> None:
    told = journal.last()
    assert told.end is End.STABLE
    assert (told.preparing_ms, told.completing_ms) == (2 * DELAY, TICK)
    assert told.total_ms == 2 * DELAY + TICK
    assert told.assigned_after_ms == TICK
    assert [one.after_ms for one in told.delays] == [DELAY]
    assert told.prepared_by is not None
    assert told.prepared_by["kind"] == "InitialDelayPassed"


def test_partitions_that_never_had_an_owner_are_not_said_to_have_lost_one(journal: Journal) -> None:
    told = journal.last()
    assert told.is_assignment_known
    assert {one.before for one in told.moves} == {None}
    assert [one.partition for one in told.moves] == [tp(0), tp(1), tp(2), tp(3)]
    assert told.unowned == []


def test_everyone_ever_heard_of_is_in_the_story(journal: Journal) -> None:
    people = journal.story().people
    assert people[journal.id_of("a")].client_id == "a"
    assert people[journal.id_of("a")].host == "127.0.0.1"


# --- members come and go ------------------------------------------------------------------------


def test_an_eager_rebalance_leaves_every_partition_without_an_owner(journal: Journal) -> None:
    journal.join("c")
    journal.sleep(1_000)
    journal.join("a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    told = journal.last()
    assert not told.is_cooperative
    assert told.prepared_by is not None
    assert told.prepared_by["kind"] == "EveryoneJoined"
    assert told.moves == [Move(tp(3), journal.id_of("b"), journal.id_of("c"))]
    assert told.stayed == 3
    assert {(one.partition, one.lost) for one in told.unowned} == {(tp(n), Lost.EAGER) for n in range(4)}
    assert {one.since for one in told.unowned} == {told.started_at}
    assert told.longest_unowned_ms == told.total_ms


def test_who_left_is_removed_and_its_partitions_move(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("b", reason="the consumer is being closed"))
    journal.join("a")
    journal.assign("a", {"a": assignment(0, 1, 2, 3)})
    told = journal.last()
    assert told.cause["kind"] == "MemberLeft"
    assert [(one.member_id, one.after_ms) for one in told.removals] == [(journal.id_of("b"), 0)]
    assert told.members_removed == (journal.id_of("b"),)
    assert told.moves == [
        Move(tp(2), journal.id_of("b"), journal.id_of("a")),
        Move(tp(3), journal.id_of("b"), journal.id_of("a")),
    ]
    assert {(one.was, one.lost) for one in told.unowned} == {
        (journal.id_of("a"), Lost.EAGER),
        (journal.id_of("b"), Lost.GONE),
    }


def test_the_partitions_of_a_silent_member_were_without_an_owner_since_it_was_last_heard_of(
    journal: Journal,
) -> None:
    for _ in range(10):  # "a" is alive, "b" is not
        journal.sleep(1_000)
        journal.scenario.heartbeat("a")
    journal.join("a")
    journal.assign("a", {"a": assignment(0, 1, 2, 3)})
    told = journal.last()
    assert kinds(told) == ["SessionExpired"]
    silent = [one for one in told.unowned if one.lost is Lost.SILENT]
    assert [one.partition for one in silent] == [tp(2), tp(3)]
    assert {one.since for one in silent} == {told.started_at - told.removals[0].cause["silent_ms"]}


def test_who_does_not_join_in_time_is_removed_when_the_rebalance_timeout_passes(journal: Journal) -> None:
    journal.join("c", "a")
    for _ in range(60):
        journal.sleep(500)
        journal.scenario.heartbeat("b")
    journal.assign("a", {"a": assignment(0, 1), "c": assignment(2, 3)}, "c")
    told = journal.last()
    assert kinds(told) == ["JoinTimedOut"]
    assert told.prepared_by is not None
    assert told.prepared_by["kind"] == "JoinTimedOut"
    assert {(one.partition, one.lost) for one in told.unowned} == {(tp(n), Lost.EAGER) for n in range(4)}


def test_who_never_took_its_assignment_had_its_partitions_for_no_time(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b")
    for _ in range(60):
        journal.sleep(500)
        for name in ("a", "b", "c"):
            journal.scenario.heartbeat(name)
    journal.join("a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2, 3)}, "b")
    before, told = journal.story().rebalances[-2:]
    assert told.cause["kind"] == "SyncTimedOut"
    (orphan,) = [one for one in told.unowned if one.lost is Lost.SILENT]
    assert (orphan.partition, orphan.since) == (tp(3), before.prepared_at)


def test_a_member_that_syncs_late_keeps_its_partitions_waiting(journal: Journal) -> None:
    journal.join("c", "a", "b")
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b")
    journal.sleep(500)
    journal.do(lambda: journal.scenario.sync("c"))
    told = journal.last()
    assert told.ended_at is not None
    until = {one.partition: one.until for one in told.unowned}
    assert until[tp(2)] == told.ended_at
    assert until[tp(3)] == told.ended_at + 500 + TICK
    assert [one.member_id for one in told.syncs] == [journal.id_of(name) for name in "bac"]


def test_another_leader_is_told_when_the_first_one_is_gone(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("a"))
    journal.join("b")
    journal.assign("b", {"b": assignment(0, 1, 2, 3)})
    assert journal.last().leader == journal.id_of("b")


def test_a_group_that_everyone_left_is_empty_and_its_partitions_have_no_owner(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("a", "b"))
    story = journal.story()
    told = story.rebalances[-1]
    assert (told.end, told.generation, told.completing_ms) == (End.EMPTY, 2, None)
    assert told.members_removed == (journal.id_of("a"), journal.id_of("b"))
    assert [one.partition for one in story.unowned] == [tp(0), tp(1), tp(2), tp(3)]
    assert {(one.until, one.owner) for one in story.unowned} == {(None, None)}


def test_a_refilled_group_says_how_long_nobody_had_its_partitions(journal: Journal) -> None:
    journal.do(lambda: journal.scenario.leave("a", "b"))
    emptied_at = journal.last().started_at
    journal.sleep(60_000)
    journal.join("c")
    journal.sleep(2 * DELAY)
    journal.assign("c", {"c": assignment(0, 1, 2, 3)})
    told = journal.last()
    assert {(one.lost, one.since) for one in told.unowned} == {(Lost.GONE, emptied_at)}
    assert {one.before for one in told.moves} == {journal.id_of("a"), journal.id_of("b")}


def test_a_topic_nobody_subscribes_to_any_more_is_not_missing_an_owner(journal: Journal) -> None:
    journal.do(
        lambda: journal.scenario.join("a", topics=["u"]), lambda: journal.scenario.join("b", topics=["u"])
    )
    journal.assign("a", {"a": assignment(0, topic="u"), "b": b""}, "b")
    story = journal.story()
    assert Move(tp(0), journal.id_of("a"), None) in story.rebalances[-1].moves
    assert story.unowned == []


def test_who_joins_twice_in_one_rebalance_counts_with_its_second_join(journal: Journal) -> None:
    journal.join("c", "a")
    journal.sleep(100)
    journal.join("a")
    journal.join("b")
    told = journal.last()
    assert [one.member_id for one in told.arrivals.values()] == [journal.id_of(name) for name in "cab"]
    assert told.arrivals[journal.id_of("a")].after_ms > 100


# --- cooperative rebalances ---------------------------------------------------------------------


def test_a_cooperative_rebalance_takes_away_only_what_moves(journal: Journal) -> None:
    scenario = journal.scenario
    journal.join("c")
    journal.do(
        lambda: scenario.join("a", protocols=[("range", owning(0, 1))]),
        lambda: scenario.join("b", protocols=[("range", owning(2, 3))]),
    )
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": b""}, "b", "c")
    first = journal.last()
    assert first.is_cooperative
    assert first.moves == [Move(tp(3), journal.id_of("b"), None)]
    assert (first.stayed, first.unowned) == (3, [])
    journal.do(
        lambda: scenario.join("b", protocols=[("range", owning(2))]),
        lambda: scenario.join("a"),
        lambda: scenario.join("c"),
    )
    journal.assign("a", {"a": assignment(0, 1), "b": assignment(2), "c": assignment(3)}, "b", "c")
    second = journal.last()
    assert second.moves == [Move(tp(3), journal.id_of("b"), journal.id_of("c"))]
    (orphan,) = second.unowned
    assert (orphan.lost, orphan.since, orphan.until) == (Lost.REVOKED, first.ended_at, second.ended_at)


def test_a_first_assignment_is_cooperative_if_its_assignor_is_called_so() -> None:
    journal = Journal()
    journal.do(lambda: journal.scenario.join("a", protocols=["cooperative-sticky"]))
    journal.sleep(2 * DELAY)
    journal.assign("a", {"a": assignment(0)})
    assert journal.last().is_cooperative
