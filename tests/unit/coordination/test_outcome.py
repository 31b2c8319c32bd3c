"""What a command led to."""

import pytest

from kohort.coordination.outcome import BatchProducer, CommandOutcome, size_at_most
from kohort.coordination.positions import Positions
from kohort.model.ids import Instant, Now, ProducerId, ReplyTo, WallTime
from kohort.records.build import build_batch
from kohort.records.header import HEADER_SIZE
from kohort.records.record import NewRecord

NOW = Now(Instant(5), WallTime(1_700_000_000_000))
RECORD = (b"key", b"value")


def outcome() -> CommandOutcome[str, str]:
    return CommandOutcome(Positions[str](), NOW)


def test_what_is_written_shares_one_position_and_one_append() -> None:
    out = outcome()
    out.write("g", [RECORD])
    out.write("h", [(b"gone", None)])
    out.close()
    assert out.position == 1
    assert out.append is not None
    assert out.append[:4] == (1, (RECORD, (b"gone", None)), NOW.wall, True)


def test_who_writes_nothing_has_no_position() -> None:
    out = outcome()
    out.close()
    assert (out.position, out.append) == (0, None)


def test_a_reply_leaves_when_what_it_rests_on_is_stored() -> None:
    positions = Positions[str]()
    out: CommandOutcome[str, str] = CommandOutcome(positions, NOW)
    out.write("g", [RECORD])
    out.reply(ReplyTo(1), "at once")
    out.reply(ReplyTo(2), "later", out.position)
    assert [reply.body for reply in out.replies] == ["at once"]
    assert [reply.body for reply in positions.store(1)] == ["later"]
    after: CommandOutcome[str, str] = CommandOutcome(positions, NOW)
    after.reply(ReplyTo(3), "stored long ago", 1)
    assert [reply.body for reply in after.replies] == ["stored long ago"]


def test_an_append_in_the_name_of_a_producer_says_so() -> None:
    out = outcome()
    out.producer = BatchProducer(ProducerId(7), epoch=2)
    out.is_atomic = False
    out.write("g", [RECORD])
    out.close()
    assert out.append is not None
    assert out.append[3:5] == (False, BatchProducer(ProducerId(7), 2))


@pytest.mark.parametrize("count", [1, 2, 300])
def test_whether_a_batch_fits_is_known_to_the_byte(count: int) -> None:
    records = [(b"k" * 20, b"v" * number) for number in range(count)]
    exact = len(build_batch([NewRecord(NOW.wall, *record) for record in records]))
    assert exact <= HEADER_SIZE + size_at_most(records)
    out = outcome()
    out.write("g", records[:-1])
    assert out.fits_with(records[-1:], exact)
    assert not out.fits_with(records[-1:], exact - 1)
