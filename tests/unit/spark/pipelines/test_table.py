"""Landing batches in a table: whatever dies, replays or comes twice, each record is there once."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.spark.pipelines.mortal_files import DiedError, MortalFiles

from kohort.spark.pipelines.ledger import (
    Landing,
    LedgerError,
    LedgerPosition,
    OverlapError,
    PendingMove,
    decode,
    encode,
)
from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.table import Table

TOPIC = "orders"
FIRST_LIFE = "first-life"


def rows(files: MortalFiles) -> list[tuple[str, int, int]]:
    """What a reader of the table sees: topic id, partition, offset."""
    found: list[tuple[str, int, int]] = []
    for path, content in files.content.items():
        if path.startswith(f"{TOPIC}/date="):
            found += [(life, partition, offset) for life, partition, offset in json.loads(content)]
    return found


class Writer:
    """An instance of the pipeline, as far as files go."""

    def __init__(self, files: MortalFiles, name: str) -> None:
        self.files = files
        self.name = name
        self.table = Table(files, TOPIC)
        self._staged = 0

    def land(self, ranges: list[tuple[LedgerPosition, Span]], between: "Writer | None" = None) -> None:
        """What the pipeline does with a batch: cut, stage, publish; again if somebody was faster."""
        for _ in range(3):
            ledger = self.table.ledger()
            landings = [
                Landing(place, left, left.size)
                for place, span in ranges
                for left in ledger.missing(place, span)
            ]
            moves = self._stage(landings)
            if between is not None:
                between.land(ranges[:1])
                between = None
            try:
                self.table.publish(landings, moves)
            except OverlapError:
                continue
            return
        raise AssertionError("overtaken again and again")

    def _stage(self, landings: list[Landing]) -> list[PendingMove]:
        """One file for even offsets and one for odd ones, as if they were of two days."""
        moves = []
        for day in (0, 1):
            records = [
                (one.place.topic_id, one.place.partition, offset)
                for one in landings
                for offset in range(*one.span)
                if offset % 2 == day
            ]
            if records:
                self._staged += 1
                name = f"{self.name}-{self._staged}.parquet"
                self.files.stage(f"_kohort/_staging/{name}", json.dumps(records).encode())
                moves.append(PendingMove(f"_kohort/_staging/{name}", f"{TOPIC}/date={day}/{name}"))
        return moves


def one_range(first: int, end: int, partition: int = 0) -> list[tuple[LedgerPosition, Span]]:
    return [(LedgerPosition(FIRST_LIFE, partition), Span(first, end))]


def test_a_batch_lands_in_the_files_of_its_days() -> None:
    files = MortalFiles()
    Writer(files, "a").land(one_range(0, 5))
    assert sorted(rows(files)) == [(FIRST_LIFE, 0, offset) for offset in range(5)]
    assert Table(files, TOPIC).dates() == [f"{TOPIC}/date=0", f"{TOPIC}/date=1"]


def test_a_replay_lands_nothing_and_an_overlap_only_what_is_new() -> None:
    files = MortalFiles()
    Writer(files, "a").land(one_range(0, 5))
    Writer(files, "b").land(one_range(0, 5))
    Writer(files, "c").land(one_range(3, 9))
    assert sorted(rows(files)) == [(FIRST_LIFE, 0, offset) for offset in range(9)]


def test_an_instance_that_is_overtaken_between_writing_and_landing_lands_the_rest() -> None:
    files = MortalFiles()
    ranges = one_range(0, 4) + one_range(0, 4, partition=1)
    Writer(files, "zombie").land(ranges, between=Writer(files, "heir"))
    assert sorted(rows(files)) == [
        (FIRST_LIFE, partition, offset) for partition in (0, 1) for offset in range(4)
    ]


def test_a_topic_made_again_under_its_name_lands_from_offset_0_again() -> None:
    files = MortalFiles()
    Writer(files, "a").land(one_range(0, 3))
    Writer(files, "a2").land([(LedgerPosition("second-life", 0), Span(0, 2))])
    assert len(rows(files)) == 5


def test_a_table_keeps_the_form_of_its_values() -> None:
    files = MortalFiles()
    Table(files, TOPIC, "json").publish([Landing(LedgerPosition(FIRST_LIFE, 0), Span(0, 1), 0)], [])
    assert Table(files, TOPIC).ledger().values == "json"
    with pytest.raises(LedgerError, match="values as json, not as utf8"):
        Table(files, TOPIC, "utf8").recover()


def test_records_without_a_ledger_stop_the_pipeline_instead_of_landing_twice() -> None:
    files = MortalFiles()
    Writer(files, "a").land(one_range(0, 3))
    del files.content[f"{TOPIC}/_kohort/ledger.json"]
    with pytest.raises(LedgerError, match="no ledger"):
        Writer(files, "b").land(one_range(0, 3))


@given(st.integers(0, 12), st.booleans())
def test_after_a_death_at_any_step_the_batch_has_landed_whole_or_not_at_all(step: int, power: bool) -> None:
    files = MortalFiles()
    Writer(files, "a").land(one_range(0, 4))
    files.dies_at = step
    try:
        Writer(files, "b").land(one_range(4, 8))
    except DiedError:
        if power:
            files.lose_power()
    files.process_died()
    landed = Table(files, TOPIC).recover().landed[LedgerPosition(FIRST_LIFE, 0)]
    assert landed.spans in ((Span(0, 4),), (Span(0, 8),))
    assert sorted(rows(files)) == [(FIRST_LIFE, 0, offset) for offset in range(landed.spans[0].end)]


def test_a_ledger_is_read_as_it_was_written() -> None:
    files = MortalFiles()
    Writer(files, "a").land(one_range(0, 4) + one_range(7, 9, partition=1))
    ledger = Table(files, TOPIC).ledger()
    assert decode(encode(ledger)) == ledger


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"version": 2}'])
def test_a_ledger_that_cannot_be_read_is_named(content: bytes) -> None:
    with pytest.raises(LedgerError):
        decode(content)


class AnyHistory(RuleBasedStateMachine):
    """Instances that hand over, replay, die and overtake each other, over a log that grows."""

    @initialize()
    def begin(self) -> None:
        self.files = MortalFiles()
        self.committed = {0: 0, 1: 0}
        self.instances = 0

    def _writer(self) -> Writer:
        self.instances += 1
        return Writer(self.files, f"i{self.instances}")

    def _ranges(self, back: int, ahead: int) -> list[tuple[LedgerPosition, Span]]:
        return [
            (LedgerPosition(FIRST_LIFE, partition), Span(max(0, offset - back), offset + ahead))
            for partition, offset in self.committed.items()
        ]

    def _commit(self, ranges: list[tuple[LedgerPosition, Span]]) -> None:
        for place, span in ranges:
            self.committed[place.partition] = max(self.committed[place.partition], span.end)

    @rule(back=st.integers(0, 5), ahead=st.integers(0, 6))
    def a_batch_from_a_commit_that_may_be_old(self, back: int, ahead: int) -> None:
        ranges = self._ranges(back, ahead)
        self._writer().land(ranges)
        self._commit(ranges)

    @rule(back=st.integers(0, 5), ahead=st.integers(1, 6))
    def two_at_once(self, back: int, ahead: int) -> None:
        ranges = self._ranges(back, ahead)
        self._writer().land(ranges, between=self._writer())
        self._commit(ranges)

    @rule(ahead=st.integers(1, 6), step=st.integers(0, 14), power=st.booleans())
    def a_death_in_a_batch(self, ahead: int, step: int, power: bool) -> None:
        self.files.dies_at = step
        try:
            self._writer().land(self._ranges(0, ahead))
        except DiedError:
            if power:
                self.files.lose_power()
        self.files.process_died()

    @invariant()
    def no_reader_sees_a_record_twice_or_a_torn_file(self) -> None:
        found = rows(self.files)
        assert len(found) == len(set(found))

    @invariant()
    def what_is_committed_is_in_the_table_once_it_is_opened(self) -> None:
        Table(self.files, TOPIC).recover()
        found = set(rows(self.files))
        assert found >= {
            (FIRST_LIFE, p, offset) for p, end in self.committed.items() for offset in range(end)
        }


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
