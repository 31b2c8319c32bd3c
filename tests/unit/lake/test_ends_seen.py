"""Since when a log ended behind an offset: never too long, and the same however it is kept in between."""

from hypothesis import given
from hypothesis import strategies as some

from kohort.lake.ends_seen import EndsSeen

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def test_recent_ends_are_exact_and_older_ones_known_by_minute_hour_and_day() -> None:
    ends = EndsSeen()
    for number in range(3 * DAY // 10_000 + 1):  # a sample every ten seconds, one record in each
        ends.see(number * 10_000, number)
    now = 3 * DAY
    assert ends.since(now // 10_000 - 3, now) == now - 20_000
    old = 2 * DAY + 23 * HOUR + 10 * MINUTE
    assert ends.since(old // 10_000 + 1, now) == old + MINUTE - 10_000
    older = 2 * DAY + HOUR
    assert ends.since(older // 10_000 + 1, now) == older + HOUR - 10_000
    assert ends.since(1, now) == DAY - 10_000
    assert len(ends.points) < 200


def test_a_record_after_a_long_silence_does_not_shorten_the_time_that_older_ones_have_waited() -> None:
    ends = EndsSeen()
    ends.see(0, 10)
    ends.see(30_000, 20)
    assert ends.since(15, 590_000) == 30_000
    ends.see(600_000, 30)
    assert ends.since(15, 600_000) == 30_000


def test_an_offset_at_the_end_has_waited_for_no_time() -> None:
    ends = EndsSeen([(5, 10)])
    assert ends.since(10, 99) == 99
    assert ends.since(9, 99) == 5


@given(
    some.lists(some.tuples(some.integers(1, 2 * HOUR), some.integers(0, 5)), min_size=1, max_size=60),
    some.integers(0, 60),
    some.integers(0, 300),
)
def test_what_is_kept_in_between_gives_the_same_answers(
    steps: list[tuple[int, int]], cut: int, offset: int
) -> None:
    whole, parts, exact = EndsSeen(), EndsSeen(), []
    now = end = 0
    for number, (after, more) in enumerate(steps):
        now, end = now + after, end + more
        exact.append((now, end))
        whole.see(now, end)
        if number == cut:
            parts = EndsSeen(parts.points)
        parts.see(now, end)
    assert parts.points == whole.points
    first = next((ts for ts, at in exact if at > offset), now)
    assert first <= whole.since(offset, now) <= now
