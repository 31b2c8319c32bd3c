"""Batching, order and numbers through every kind of mishap, on virtual time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.producer.lanes import (
    HERE,
    NODE,
    OTHER_NODE,
    PAUSE,
    PRODUCER_ID,
    RECORD,
    THERE,
    accumulator,
    known_accumulator,
    launch,
    numbers,
    put,
)

from kohort.client.producer.accumulator import Added
from kohort.client.producer.batch import Batch
from kohort.records.batch import HEADER_SIZE
from kohort.records.compression import Codec


def test_a_batch_lingers_for_more_records_and_then_leaves() -> None:
    lanes = accumulator(linger_ms=10)

    _, added = put(lanes, now=5)

    assert added is Added.STARTED
    assert lanes.ready(14) == []
    assert lanes.next_due(5) == 15
    assert lanes.ready(15) == [HERE]


def test_a_full_batch_does_not_linger() -> None:
    lanes = accumulator(records=2, linger_ms=1_000)

    _, added = put(lanes, 2)

    assert added is Added.FILLED
    assert lanes.ready(0) == [HERE]


def test_a_record_that_does_not_fit_closes_the_batch_before_it() -> None:
    lanes = accumulator(records=2, linger_ms=1_000)

    put(lanes, 3)
    sent = launch(lanes)

    assert [len(batch.records) for batch in sent] == [2]  # the third lingers


def test_nobody_lingers_when_there_is_a_hurry() -> None:
    lanes = accumulator(linger_ms=1_000)
    put(lanes)

    lanes.in_a_hurry = True

    assert lanes.ready(0) == [HERE]


def test_bytes_count_as_buffered_until_their_batch_is_settled() -> None:
    lanes = accumulator()
    put(lanes, 2)
    assert lanes.buffered == HEADER_SIZE + 2 * RECORD
    (batch,) = launch(lanes)
    assert lanes.buffered == HEADER_SIZE + 2 * RECORD

    lanes.settle(batch, stored=True)

    assert lanes.buffered == 0


def test_sequence_numbers_follow_the_records_of_each_partition() -> None:
    lanes = known_accumulator(records=2)
    put(lanes, 6)
    put(lanes, 2, partition=THERE)

    here, there = launch(lanes), launch(lanes, partition=THERE)

    assert numbers(here) == [(0, 0), (0, 2), (0, 4)]
    assert numbers(there) == [(0, 0)]


def test_at_most_five_batches_of_a_partition_are_in_flight() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 7)

    sent = launch(lanes)

    assert len(sent) == 5
    lanes.settle(sent[0], stored=True)
    assert len(launch(lanes)) == 1


def test_a_lane_stands_still_until_all_in_flight_are_home_and_then_repeats_them_in_order() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 3)
    first, second, third = launch(lanes)
    bytes_of_second = second.encode(Codec.NONE)

    lanes.come_back(third, 0)
    lanes.come_back(first, 0)
    assert lanes.ready(PAUSE) == []  # the second is still out there
    lanes.come_back(second, 0)

    assert lanes.ready(PAUSE - 1) == []
    assert launch(lanes, now=PAUSE) == [first, second, third]
    assert numbers([first, second, third]) == [(0, 0), (0, 1), (0, 2)]
    assert second.encode(Codec.NONE) == bytes_of_second


def test_records_that_come_meanwhile_queue_behind_those_that_are_repeated() -> None:
    lanes = known_accumulator(records=3)
    put(lanes, 3)
    (first,) = launch(lanes)
    lanes.come_back(first, 0)

    put(lanes, 3, now=1)

    repeated, new = launch(lanes, now=PAUSE)
    assert repeated is first
    assert numbers([repeated, new]) == [(0, 0), (0, 3)]


def test_a_wrong_number_behind_a_failed_batch_changes_nothing() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 2)
    first, second = launch(lanes)

    lanes.come_back(first, 0)  # the leader moved: not stored
    second.is_misnumbered = True  # so the broker misses the first
    lanes.come_back(second, 0)

    assert numbers(launch(lanes, now=PAUSE)) == [(0, 0), (0, 1)]


def test_a_wrong_number_at_the_head_starts_the_next_epoch_from_zero() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 3)
    first, second, third = launch(lanes)

    lanes.settle(first, stored=False)  # refused for good: its numbers are missing from now on
    second.is_misnumbered = third.is_misnumbered = True
    lanes.come_back(second, 0)
    lanes.come_back(third, 0)

    (again,) = launch(lanes, now=PAUSE)
    lanes.settle(again, stored=True)
    assert numbers([again, *launch(lanes, now=PAUSE)]) == [(1, 0), (1, 1)]


def test_a_batch_the_broker_forgot_was_stored_if_one_behind_it_was() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 2)
    for batch in launch(lanes):  # both are stored, both answers are lost, and the broker starts anew
        batch.may_be_stored = True
        lanes.come_back(batch, 0)
    first, second = launch(lanes, now=PAUSE)

    first.is_misnumbered = True
    lanes.come_back(first, PAUSE)
    lanes.settle(second, stored=True)

    assert lanes.take_concluded() == ([first], [])
    assert lanes.buffered == 0
    put(lanes, 1)
    assert numbers(launch(lanes, now=2 * PAUSE)) == [(0, 2)]


def test_a_batch_that_may_be_stored_keeps_its_numbers_until_those_behind_it_have_their_answers() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 2)
    for batch in launch(lanes):
        batch.may_be_stored = True
        lanes.come_back(batch, 0)
    first, second = launch(lanes, now=PAUSE)
    first.is_misnumbered = True
    lanes.come_back(first, PAUSE)
    lanes.come_back(second, PAUSE)  # its answer is lost once more

    (alone,) = launch(lanes, now=2 * PAUSE)
    assert alone is second
    assert numbers([alone]) == [(0, 1)]
    second.is_misnumbered = True
    lanes.come_back(second, 2 * PAUSE)

    assert lanes.take_concluded() == ([], [])
    (head,) = launch(lanes, now=3 * PAUSE)
    lanes.settle(head, stored=True)
    assert numbers([head, *launch(lanes, now=3 * PAUSE)]) == [(1, 0), (1, 1)]


def test_another_partition_keeps_its_epoch_when_one_starts_over() -> None:
    lanes = accumulator(records=1)
    put(lanes, 1)
    (here,) = launch(lanes)
    here.is_misnumbered = True
    lanes.come_back(here, 0)

    put(lanes, 1, partition=THERE)

    assert numbers(launch(lanes, now=PAUSE)) == [(1, 0)]
    assert numbers(launch(lanes, now=PAUSE, partition=THERE)) == [(0, 0)]


def test_a_batch_that_is_too_large_leaves_in_halves_and_those_behind_keep_their_numbers() -> None:
    lanes = known_accumulator(records=4)
    waiters, _ = put(lanes, 8)
    large, behind = launch(lanes)

    lanes.split(large)
    behind.is_misnumbered = True
    lanes.come_back(behind, 0)

    left, right, again = launch(lanes, now=PAUSE)
    assert numbers([left, right, again]) == [(0, 0), (0, 2), (0, 4)]
    assert [*left.deliveries, *right.deliveries, *again.deliveries] == waiters


def test_the_first_batch_of_a_partition_goes_alone_because_brokers_take_any_first_number() -> None:
    lanes = accumulator(records=1)
    put(lanes, 3)

    (first,) = launch(lanes)
    lanes.settle(first, stored=True)

    assert len(launch(lanes)) == 2


def test_batches_without_numbers_need_not_go_alone() -> None:
    lanes = accumulator(records=1, numbered=False)
    put(lanes, 3)

    assert [batch.numbering for batch in launch(lanes)] == [None, None, None]


def test_a_partition_waits_for_the_old_leader_before_it_writes_to_the_new_one() -> None:
    lanes = accumulator(records=1)
    put(lanes, 1)
    (first,) = launch(lanes)
    put(lanes, 1)

    assert lanes.take(HERE, OTHER_NODE, 1_000) is None
    lanes.settle(first, stored=True)
    assert lanes.take(HERE, OTHER_NODE, 1_000) is not None


def test_a_batch_waits_for_the_next_request_when_this_one_is_full() -> None:
    lanes = accumulator(records=1)
    put(lanes)

    assert lanes.take(HERE, NODE, 50) is None
    assert lanes.ready(0) == [HERE]


def test_what_is_late_expires_unless_it_is_in_flight() -> None:
    lanes = accumulator(records=1)
    put(lanes, 1)
    (flying,) = launch(lanes)
    put(lanes, 1, now=1)

    late = lanes.expire(10_001)

    assert [batch.created for batch in late] == [1]
    lanes.come_back(flying, 10_001)
    assert lanes.expire(10_001) == [flying]
    assert lanes.buffered == 0


def test_after_an_expired_batch_the_next_finds_out_by_itself_whether_numbers_are_missing() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 1)
    (lost,) = launch(lanes)
    put(lanes, 1, now=5_000)
    (behind,) = launch(lanes)
    lanes.come_back(lost, 0)

    assert lanes.expire(10_000) == [lost]
    behind.is_misnumbered = True
    lanes.come_back(behind, 10_000)

    assert numbers(launch(lanes, now=10_000 + PAUSE)) == [(1, 0)]


def test_a_flush_is_over_when_nothing_up_to_its_place_is_left() -> None:
    lanes = known_accumulator(records=1)
    put(lanes, 2)
    place = lanes.last_order
    put(lanes, 1)
    first, second, third = launch(lanes)

    lanes.settle(first, stored=True)
    assert not lanes.is_settled(place)
    lanes.settle(second, stored=True)

    assert lanes.is_settled(place)
    assert not lanes.is_settled(lanes.last_order)
    lanes.settle(third, stored=True)


def test_closing_takes_out_everything() -> None:
    lanes = accumulator(records=1)
    put(lanes, 1)
    launch(lanes)
    put(lanes, 1)

    assert len(lanes.clear()) == 1
    assert len(lanes.clear(in_flight=True)) == 1
    assert lanes.buffered == 0


def test_under_another_producer_id_what_was_not_sent_is_numbered_anew() -> None:
    lanes = accumulator(records=1)
    put(lanes, 1)
    (fenced,) = launch(lanes)
    put(lanes, 1)
    lanes.settle(fenced, stored=False)

    lanes.renounce(HERE)

    assert lanes.sequences is not None
    assert lanes.sequences.needs_identity
    lanes.sequences.identify(PRODUCER_ID + 1, 0)
    (batch,) = launch(lanes)
    assert batch.numbering == (PRODUCER_ID + 1, 0, 0)


class _Broker:
    """One partition's log, with the rules for numbers of a real one."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.epoch, self.expected = -1, 0
        self.known: dict[tuple[int, int], int] = {}

    def accepts(self, batch: Batch) -> bool:
        assert batch.numbering is not None
        _, epoch, sequence = batch.numbering
        if (epoch, sequence) in self.known:
            return True
        if epoch == self.epoch and sequence != self.expected:
            return False
        if epoch > self.epoch and self.epoch >= 0 and sequence != 0:
            return False
        assert epoch >= self.epoch
        self.epoch, self.expected = epoch, sequence + len(batch.records)
        self.known[epoch, sequence] = len(self.log)
        self.log.extend(batch.deliveries)
        return True

    def restart(self) -> None:
        """Of a producer's batches Kafka's snapshot has the last one."""
        self.known = dict(list(self.known.items())[-1:])


FATES = ["ok", "lost", "stored, reply lost", "stored, reply lost, restarted", "refused"]


@pytest.mark.slow
@given(st.lists(st.sampled_from(FATES), max_size=40))
def test_whatever_happens_nothing_is_stored_twice_and_the_order_stays(fates: list[str]) -> None:
    lanes, broker = accumulator(records=2), _Broker()
    waiters, _ = put(lanes, 24)
    refused: set[int] = set()
    now = 0
    while not lanes.is_settled(lanes.last_order):
        assert now < 9_000
        now += PAUSE
        for batch in launch(lanes, now=now):
            fate = fates.pop() if fates else "ok"
            if fate == "refused":
                lanes.settle(batch, stored=False)
                refused.update(map(id, batch.deliveries))
            elif fate == "lost":
                batch.may_be_stored = True
                lanes.come_back(batch, now)
            elif not broker.accepts(batch):
                batch.is_misnumbered = True
                lanes.come_back(batch, now)
            elif fate == "ok":
                lanes.settle(batch, stored=True)
            else:
                batch.may_be_stored = True
                lanes.come_back(batch, now)
                if fate.endswith("restarted"):
                    broker.restart()
        concluded = lanes.take_concluded()
        refused.update(id(waiter) for batch in concluded.doubtful for waiter in batch.deliveries)
        stored_before = {id(waiter) for batch in concluded.stored for waiter in batch.deliveries}
        assert stored_before <= set(map(id, broker.log))

    assert lanes.buffered == 0
    assert len(set(map(id, broker.log))) == len(broker.log)
    order = [waiters.index(stored) for stored in broker.log]  # type: ignore[arg-type] # waiters are all there is
    assert order == sorted(order)
    assert {id(waiter) for waiter in waiters} == {id(stored) for stored in broker.log} | refused
