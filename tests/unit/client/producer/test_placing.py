from collections.abc import Sequence

from kohort.client.producer.placing import Sticky


def _first(numbers: Sequence[int]) -> int:
    return numbers[0]


def test_records_stick_to_a_partition_until_a_batch_is_full_of_them() -> None:
    sticky = Sticky(100, _first)

    assert [sticky.place("orders", [0, 1], 40) for _ in range(7)] == [0, 0, 0, 1, 1, 1, 0]


def test_each_topic_has_its_own_partition() -> None:
    sticky = Sticky(100, _first)
    sticky.place("orders", [0, 1], 100)

    assert sticky.place("orders", [0, 1], 1) == 1
    assert sticky.place("bills", [0, 1], 1) == 0


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = Sticky(100, _first)
    sticky.place("orders", [0, 1], 1)

    assert sticky.place("orders", [1], 1) == 1


def test_a_single_partition_takes_all() -> None:
    sticky = Sticky(10, _first)

    assert [sticky.place("orders", [3], 10) for _ in range(3)] == [3, 3, 3]
