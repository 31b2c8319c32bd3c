"""Where records went, and what failed."""

import asyncio

import pytest

from kohort.cli.commentary import Commentary
from kohort.cli.records.produce_receipts import OffsetRun, ProduceReceipts, summaries
from kohort.client.producer import RecordMetadata
from kohort.model.errors import KohortError
from kohort.model.ids import Offset, Partition, TopicName


def at(partition: int, offset: int) -> RecordMetadata:
    return RecordMetadata(TopicName("t"), Partition(partition), Offset(offset), 9)


def test_where_records_went_is_one_line_for_each_partition() -> None:
    assert summaries("t", {1: OffsetRun(1, 5, 5), 0: OffsetRun(3, 2, 4), 2: OffsetRun(2, -1, -1)}) == [
        "t-0: offsets 2 to 4 (3 records)",
        "t-1: offset 5 (1 record)",
        "t-2: sent, and not confirmed (2 records)",
    ]


def test_a_reader_who_has_seen_enough_ends_the_work_and_nothing_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(text: str = "") -> None:
        raise BrokenPipeError

    monkeypatch.setattr("kohort.cli.records.produce_receipts.say", closed)
    commentary = Commentary("writing", quiet=True, draws=False)
    receipts = ProduceReceipts("t", as_json=True, commentary=commentary)
    story(receipts, at(0, 1), at(0, 2))
    with pytest.raises(BrokenPipeError):
        receipts.check()
    assert commentary.records == 2


def story(receipts: ProduceReceipts, *outcomes: RecordMetadata | KohortError | None) -> None:
    """Records with these outcomes, where None is not known yet."""

    async def run() -> None:
        for outcome in outcomes:
            delivered: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
            if isinstance(outcome, KohortError):
                delivered.set_exception(outcome)
            elif outcome is not None:
                delivered.set_result(outcome)
            receipts.expect(delivered, 10)
        receipts.settle()

    asyncio.run(run())


def test_what_was_shown_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    commentary = Commentary("writing", quiet=True, draws=False)
    receipts = ProduceReceipts("t", as_json=False, commentary=commentary)
    story(receipts, at(0, 3), at(1, 0), at(0, 4), None, at(0, 6))
    receipts.show()
    receipts.show()
    assert capsys.readouterr().out == "t-0: offsets 3 to 4 (2 records)\nt-1: offset 0 (1 record)\n"
    assert (commentary.records, commentary.size) == (3, 30)


def test_in_json_every_record_is_a_line_in_the_order_sent(capsys: pytest.CaptureFixture[str]) -> None:
    receipts = ProduceReceipts("t", as_json=True, commentary=Commentary("writing", quiet=True, draws=False))
    story(receipts, at(1, 3), at(0, 7))
    receipts.show()
    assert capsys.readouterr().out == (
        '{"topic": "t", "partition": 1, "offset": 3, "timestamp": 9}\n'
        '{"topic": "t", "partition": 0, "offset": 7, "timestamp": 9}\n'
    )


def test_the_first_failure_is_the_one_that_is_raised() -> None:
    commentary = Commentary("writing", quiet=True, draws=False)
    receipts = ProduceReceipts("t", as_json=False, commentary=commentary)
    receipts.check()
    story(receipts, at(0, 0), KohortError("first"), KohortError("second"), at(0, 1))
    with pytest.raises(KohortError, match="first"):
        receipts.check()
    assert commentary.records == 2
