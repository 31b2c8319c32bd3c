"""What a query in a group commits and reads next."""

from dataclasses import replace

from kohort.model.topics import TopicPartition
from kohort.spark.group.offsets import GroupOffsetSpan, Spans
from kohort.spark.group.plan import (
    GroupAssignment,
    HeldPartitions,
    Holding,
    PlanLimits,
    QueryMemory,
    caught_up,
    known_of,
    losses,
    newest_only,
    next_batch,
    past_of,
)
from kohort.spark.offsets import known_ids, made_again, topic_partition

A, B, C = (topic_partition("t", number) for number in range(3))
OTHER = topic_partition("other", 0)
NOBODY = HeldPartitions()


def holding(**positions: tuple[int, int | None]) -> HeldPartitions:
    """Partitions by the letter, each with its position and its commit, in generation 4."""
    held = {{"a": A, "b": B, "c": C}[name]: Holding(*numbers) for name, numbers in positions.items()}
    return HeldPartitions(GroupAssignment(tuple(held), 4, "me"), held)


def assigned(*partitions: TopicPartition) -> GroupAssignment:
    return GroupAssignment(partitions, 5, "me")


def past(done: Spans, before: HeldPartitions = NOBODY, **acknowledged: int) -> QueryMemory:
    """Without ids of topics; with commits the group has had, by the letter of the partition."""
    had = {{"a": A, "b": B, "c": C}[name]: offset for name, offset in acknowledged.items()}
    return past_of(done, before, had, {})


def test_without_a_commit_a_later_partition_of_a_known_topic_starts_at_its_beginning() -> None:
    known = known_of(assigned(A, B, OTHER), {}, past({A: GroupOffsetSpan(0, 9, 1)}))
    assert (known.unknown, known.new) == ((OTHER,), (B,))
    known = known_of(assigned(A, C), {A: 3}, past({}, holding(a=(3, 3))))
    assert (known.unknown, known.new) == ((), (C,))


def test_a_position_nobody_committed_is_remembered_over_a_rebalance() -> None:
    known = known_of(assigned(A), {A: None}, past({}, holding(a=(50, None))))
    assert known.positions == {A: 50}


def test_a_commit_from_before_the_last_batch_is_doubtful_if_nothing_is_known_of_it() -> None:
    done = {A: GroupOffsetSpan(100, 200, 1), B: GroupOffsetSpan(100, 200, 1)}
    known = known_of(assigned(A, B), {A: 150, B: 3}, past(done))
    assert known.behind == {B: 3}
    assert known.positions == {A: 200, B: 200}


def test_commits_that_have_expired_are_no_reset() -> None:
    known = known_of(assigned(A), {A: None}, past({A: GroupOffsetSpan(100, 200, 1)}, a=200))
    assert (known.positions, known.set_back) == ({A: 200}, ())


# --- topics that were deleted and made again --------------------------------------------------

T = A.topic


def test_another_id_is_another_topic() -> None:
    assert made_again({T: "x"}, {T: "y", OTHER.topic: "z"}) == {T}
    assert made_again({T: "x"}, {}) == set(), "gone is not made again"
    assert known_ids({T: bytes(16), OTHER.topic: bytes(15) + b"\1"}) == {
        OTHER.topic: "AAAAAAAAAAAAAAAAAAAAAQ"
    }


def test_what_a_run_has_seen_of_the_old_topic_counts_for_nothing() -> None:
    before = replace(holding(a=(50, 50)), seen={B: 8}, topic_ids={T: "x"})
    old = past_of({}, before, {}, {T: "y"})
    assert (old.seen, old.topic_ids) == ({}, {T: "y"})
    assert old.topics == {T}
    assert old.void == {A, B}
    anew = before.started_over({T: "y"}, {A: 0})
    assert (anew.positions, anew.seen, anew.topic_ids) == ({A: 0}, {}, {T: "y"})
    assert before.started_over({T: "y"}, {}).held == {}, "it has fewer partitions now"


def test_a_topic_that_is_known_to_be_another_is_not_made_again_once_more() -> None:
    done = {A: GroupOffsetSpan(100, 200, 1, "x")}
    old = past_of(done, replace(NOBODY, topic_ids={T: "y"}), {}, {T: "y"})
    assert not old.made_again | old.void
    assert not old.done
    assert known_of(assigned(A), {A: 4}, old).positions == {A: 4}


def test_the_checkpoint_learns_the_new_id_though_there_is_nothing_to_read() -> None:
    done = {A: GroupOffsetSpan(0, 0, 4, "x")}
    held = replace(holding(a=(0, 0)), topic_ids={T: "y"})
    assert next_batch(held, done, {A: 0}, PlanLimits()) == {A: GroupOffsetSpan(0, 0, 4, "y")}
    assert next_batch(held, {A: GroupOffsetSpan(0, 0, 4, "y")}, {A: 0}, PlanLimits()) is None
    assert next_batch(held, {A: GroupOffsetSpan(0, 0, 4)}, {A: 0}, PlanLimits()) is None, (
        "a checkpoint without ids"
    )


def test_a_batch_says_what_it_reads_and_carries_the_rest_along() -> None:
    done = {A: GroupOffsetSpan(0, 10, 3), B: GroupOffsetSpan(0, 7, 3), OTHER: GroupOffsetSpan(5, 8, 2)}
    held = holding(a=(10, 10), b=(7, 7), c=(4, None))
    assert next_batch(held, done, {A: 12, B: 7, C: 9}, PlanLimits()) == {
        A: GroupOffsetSpan(10, 12, 4),
        B: GroupOffsetSpan(7, 7, 4),
        C: GroupOffsetSpan(4, 9, 4),
        OTHER: GroupOffsetSpan(8, 8, 2),
    }


def test_a_limit_is_shared_in_proportion() -> None:
    spans = next_batch(holding(a=(0, 0), b=(0, 0)), {}, {A: 300, B: 100}, PlanLimits(at_most=40))
    assert spans == {A: GroupOffsetSpan(0, 30, 4), B: GroupOffsetSpan(0, 10, 4)}


def test_a_partition_whose_log_is_not_known_waits() -> None:
    spans = next_batch(holding(a=(0, 0), b=(3, 3)), {}, {A: 5}, PlanLimits())
    assert spans == {A: GroupOffsetSpan(0, 5, 4), B: GroupOffsetSpan(3, 3, 4)}


def test_expired_and_truncated_logs_are_losses() -> None:
    positions = {A: 5, B: 50, C: 20}
    found = losses(positions, {A: 8, B: 0, C: 0}, {A: 30, B: 40, C: 20})
    assert [loss.where for loss in found] == [A, B]
    assert str(found[0]) == "offsets 5 to 7 of t-0 have expired"
    assert "made again" in str(found[1])


def test_a_topic_made_again_that_looks_like_the_old_one_is_read_in_the_batch_after_the_next() -> None:
    done = {A: GroupOffsetSpan(0, 3, 4)}
    held = caught_up(holding(a=(0, 0)), done).restarted({A: 0})
    assert next_batch(held, done, {A: 3}, PlanLimits()) == {A: GroupOffsetSpan(0, 0, 4)}, (
        "another end than before"
    )
    assert next_batch(held, {A: GroupOffsetSpan(0, 0, 4)}, {A: 3}, PlanLimits()) == {
        A: GroupOffsetSpan(0, 3, 4)
    }


def test_a_query_that_ends_reads_what_was_there_of_what_it_had() -> None:
    assert newest_only({A: 10, B: 5, C: 7}, {A: 8, B: 9}) == {A: 8, B: 5}
