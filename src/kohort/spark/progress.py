"""How a stream gets on: what was lost since the last batch, and whether it pays to start another. Pure."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kohort.model.topics import TopicPartition
from kohort.spark.offsets import Offsets, TopicIds, made_again, to_json

ABOUT: Final = "@kohort"
"""Beside the topics in what a source reports as its latest offset; no topic can have this name."""


def reported(ends: Offsets, reached: Offsets, **about: str | int) -> dict[str, Any]:
    """What ``query.lastProgress`` shows as ``latestOffset``: log ends, and how far the query is behind them.

    ``reached``: where the batch that is planned ends, or the one before if there is none.
    """
    behind = [max(end - reached.get(where, end), 0) for where, end in ends.items()]
    numbers = {"lag": sum(behind), "largest_lag": max(behind, default=0), "partitions": len(behind)}
    return {**to_json(ends), ABOUT: {**numbers, **about}}


class Survey(NamedTuple):
    """The partitions there are now: their ends, and the ids of their topics."""

    ends: Offsets
    topic_ids: TopicIds


class Loss(NamedTuple):
    """A partition that does not go on where we left it."""

    partition: TopicPartition
    message: str
    is_cut: bool = False  # its log is the same one, and shorter


def compare(starts: Offsets, survey: Survey, known_ids: TopicIds) -> Iterator[Loss]:
    """What cannot be read on from ``starts``, which are offsets in topics with the ids ``known_ids``.

    Topics that have another id now are other topics and not compared: see ``made_again``.
    """
    others = made_again(known_ids, survey.topic_ids)
    for where, start in sorted(starts.items()):
        end = survey.ends.get(where)
        if where.topic in others:
            continue
        if end is None:
            yield Loss(where, f"{where} is gone; it was read up to offset {start}")
        elif end < start:
            message = f"{where} now ends at {end}; it was read up to offset {start}"
            yield Loss(where, message, is_cut=where.topic in known_ids)


class Patience:
    """``minOffsetsPerTrigger`` and ``maxTriggerDelay``: wait for enough, but not for ever."""

    def __init__(self, least: int | None, delay_ms: float) -> None:
        self._least = least
        self._delay_ms = delay_ms
        self._last_ms: float | None = None

    def waits(self, offsets: int, now_ms: float) -> bool:
        """Whether to delay a batch of this number of offsets. The first one is never delayed."""
        if self._least is None:
            return False
        is_due = self._last_ms is None or now_ms - self._last_ms >= self._delay_ms
        if offsets < self._least and not is_due:
            return True
        self._last_ms = now_ms
        return False
