"""What a query in a group commits and reads next."""

from kohort.model.topics import TopicPartition
from kohort.spark.group_offsets import Span
from kohort.spark.group_plan import (
    Assignment,
    Holding,
    Holdings,
    Limits,
    caught_up,
    due_commits,
    known_of,
    losses,
    newest_only,
    next_batch,
    taken_over,
)
from kohort.spark.offsets import topic_partition

A, B, C = (topic_partition("t", number) for number in range(3))
OTHER = topic_partition("other", 0)
NOBODY = Holdings()


def holding(**positions: tuple[int, int | None]) -> Holdings:
    """Partitions by the letter, each with its position and its commit, in generation 4."""
    held = {{"a": A, "b": B, "c": C}[name]: Holding(*numbers) for name, numbers in positions.items()}
    return Holdings(Assignment(tuple(held), 4, "me"), held)


def assigned(*partitions: TopicPartition) -> Assignment:
    return Assignment(partitions, 5, "me")


def test_what_spark_has_made_durable_is_committed_once() -> None:
    held = caught_up(holding(a=(10, 10), b=(5, 5)), {A: Span(10, 25, 4), B: Span(5, 5, 4)})
    assert due_commits(held) == {A: 25}
    assert due_commits(held.committed({A: 25})) == {}


def test_a_partition_that_is_not_held_is_not_committed() -> None:
    held = caught_up(holding(a=(10, 10)), {A: Span(10, 25, 4), B: Span(0, 90, 3)})
    assert due_commits(held) == {A: 25}


def test_a_start_that_was_looked_up_is_committed_before_anything_is_read() -> None:
    known = known_of(assigned(A), {A: None}, {}, NOBODY)
    assert known.unknown == (A,)
    held = taken_over(assigned(A), known, {A: 50}, NOBODY)
    assert held.positions == {A: 50}
    assert due_commits(held) == {A: 50}


def test_the_larger_of_commit_and_checkpoint_is_where_a_partition_goes_on() -> None:
    done = {A: Span(10, 30, 1), B: Span(10, 30, 1)}
    known = known_of(assigned(A, B), {A: 20, B: 90}, done, NOBODY)
    held = taken_over(assigned(A, B), known, {}, NOBODY)
    assert held.positions == {A: 30, B: 90}
    assert due_commits(held) == {A: 30}, "what others committed is never set back"


def test_a_partition_that_was_fenced_and_comes_back_is_not_read_again() -> None:
    fenced = caught_up(holding(a=(10, 10)), {A: Span(10, 25, 4)}).dropped()
    assert due_commits(fenced) == {}
    assert next_batch(fenced, {A: Span(10, 25, 4)}, {A: 99}, Limits()) is None
    known = known_of(assigned(A), {A: 10}, {}, fenced)
    assert taken_over(assigned(A), known, {}, fenced).positions == {A: 25}


def test_without_a_commit_a_later_partition_of_a_known_topic_starts_at_its_beginning() -> None:
    known = known_of(assigned(A, B, OTHER), {}, {A: Span(0, 9, 1)}, NOBODY)
    assert (known.unknown, known.new) == ((OTHER,), (B,))
    known = known_of(assigned(A, C), {A: 3}, {}, holding(a=(3, 3)))
    assert (known.unknown, known.new) == ((), (C,))


def test_a_position_nobody_committed_is_remembered_over_a_rebalance() -> None:
    known = known_of(assigned(A), {A: None}, {}, holding(a=(50, None)))
    assert known.positions == {A: 50}


def test_a_reset_of_the_group_is_noticed() -> None:
    done = {A: Span(100, 200, 1), B: Span(100, 200, 1)}
    known = known_of(assigned(A, B), {A: 150, B: 3}, done, NOBODY)
    assert known.set_back(done) == {B: 3}
    assert known.positions == {A: 200, B: 200}


def test_nothing_new_is_no_batch() -> None:
    assert next_batch(holding(a=(10, 10)), {}, {A: 10}, Limits()) is None
    assert next_batch(NOBODY, {A: Span(1, 2, 1)}, {}, Limits()) is None
    assert next_batch(holding(a=(10, 10)), {}, {A: 14}, Limits(at_least=5)) is None


def test_a_batch_says_what_it_reads_and_carries_the_rest_along() -> None:
    done = {A: Span(0, 10, 3), B: Span(0, 7, 3), OTHER: Span(5, 8, 2)}
    held = holding(a=(10, 10), b=(7, 7), c=(4, None))
    assert next_batch(held, done, {A: 12, B: 7, C: 9}, Limits()) == {
        A: Span(10, 12, 4),
        B: Span(7, 7, 4),
        C: Span(4, 9, 4),
        OTHER: Span(8, 8, 2),
    }


def test_a_limit_is_shared_in_proportion() -> None:
    spans = next_batch(holding(a=(0, 0), b=(0, 0)), {}, {A: 300, B: 100}, Limits(at_most=40))
    assert spans == {A: Span(0, 30, 4), B: Span(0, 10, 4)}


def test_a_partition_whose_log_is_not_known_waits() -> None:
    spans = next_batch(holding(a=(0, 0), b=(3, 3)), {}, {A: 5}, Limits())
    assert spans == {A: Span(0, 5, 4), B: Span(3, 3, 4)}


def test_expired_and_truncated_logs_are_losses() -> None:
    positions = {A: 5, B: 50, C: 20}
    found = losses(positions, {A: 8, B: 0, C: 0}, {A: 30, B: 40, C: 20})
    assert [loss.where for loss in found] == [A, B]
    assert str(found[0]) == "offsets 5 to 7 of t-0 have expired"
    assert "made again" in str(found[1])


def test_a_topic_made_again_is_read_from_its_start_and_the_checkpoint_learns_it() -> None:
    done = {A: Span(150, 200, 3)}
    held = caught_up(holding(a=(150, 150)), done).restarted({A: 0})
    assert due_commits(held) == {A: 0}
    assert next_batch(held, done, {A: 0}, Limits()) == {A: Span(0, 0, 4)}
    again = caught_up(held, {A: Span(0, 0, 4)})
    assert next_batch(again, {A: Span(0, 0, 4)}, {A: 3}, Limits()) == {A: Span(0, 3, 4)}


def test_a_topic_made_again_that_looks_like_the_old_one_is_read_in_the_batch_after_the_next() -> None:
    done = {A: Span(0, 3, 4)}
    held = caught_up(holding(a=(0, 0)), done).restarted({A: 0})
    assert next_batch(held, done, {A: 3}, Limits()) == {A: Span(0, 0, 4)}, "another end than before"
    assert next_batch(held, {A: Span(0, 0, 4)}, {A: 3}, Limits()) == {A: Span(0, 3, 4)}


def test_a_query_that_ends_reads_what_was_there_of_what_it_had() -> None:
    assert newest_only({A: 10, B: 5, C: 7}, {A: 8, B: 9}) == {A: 8, B: 5}
