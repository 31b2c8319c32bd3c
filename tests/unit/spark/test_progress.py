"""What a stream notices between two batches."""

from kohort.model.ids import TopicName
from kohort.spark.offsets import topic_partition
from kohort.spark.progress import Patience, Survey, compare

A = topic_partition("t", 0)
T = TopicName("t")


def test_a_log_that_grew_is_no_loss() -> None:
    assert list(compare({A: 5}, Survey({A: 9}, {T: "one"}), {T: "one"})) == []


def test_a_partition_that_is_gone_is_a_loss() -> None:
    (loss,) = compare({A: 5}, Survey({}, {}), {T: "one"})
    assert loss.message == "t-0 is gone; it was read up to offset 5"


def test_a_topic_with_another_id_is_not_compared_however_long_it_is() -> None:
    assert list(compare({A: 5}, Survey({A: 3}, {T: "two"}), {T: "one"})) == []


def test_a_log_that_shrank_was_cut_if_its_topic_is_the_same() -> None:
    (loss,) = compare({A: 5}, Survey({A: 3}, {T: "one"}), {T: "one"})
    assert loss.is_cut


def test_a_log_that_shrank_under_a_checkpoint_without_ids_may_be_another_one() -> None:
    (loss,) = compare({A: 5}, Survey({A: 3}, {T: "one"}), {})
    assert not loss.is_cut


def test_without_a_lower_limit_nothing_waits() -> None:
    assert not Patience(None, 1_000).waits(0, now_ms=0)


def test_few_records_wait_until_there_are_enough() -> None:
    patience = Patience(10, delay_ms=1_000)
    assert not patience.waits(3, now_ms=0), "the first batch starts at once, as in the connector"
    assert patience.waits(9, now_ms=10)
    assert not patience.waits(10, now_ms=20)


def test_few_records_wait_no_longer_than_the_delay() -> None:
    patience = Patience(10, delay_ms=1_000)
    patience.waits(3, now_ms=0)
    assert patience.waits(3, now_ms=999)
    assert not patience.waits(3, now_ms=1_000)
    assert patience.waits(3, now_ms=1_999)
