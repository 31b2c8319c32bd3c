"""How a stream gets on: what was lost since the last batch, and whether it pays to start another. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.offsets import Offsets


class Survey(NamedTuple):
    """The partitions there are now: their ends, and the ids of their topics."""

    ends: Offsets
    topic_ids: Mapping[TopicName, bytes]


class Loss(NamedTuple):
    """A partition that does not go on where we left it. ``begins_anew``: it is another one of that name."""

    partition: TopicPartition
    message: str
    begins_anew: bool


def compare(starts: Offsets, survey: Survey, known_ids: Mapping[TopicName, bytes]) -> Iterator[Loss]:
    """What cannot be read on from ``starts``; ``known_ids`` are those of the topics in earlier batches.

    An id that changed proves that a topic was deleted and made again. So does, as far as we know, an end
    before our start; with an unchanged id it is the log that was cut.
    """
    for where, start in sorted(starts.items()):
        end = survey.ends.get(where)
        known = known_ids.get(where.topic)
        if end is None:
            yield Loss(where, f"{where} is gone; it was read up to offset {start}", False)
        elif known is not None and survey.topic_ids.get(where.topic) != known:
            message = f"the topic of {where} was deleted and made again; it was read up to offset {start}"
            yield Loss(where, message, True)
        elif end < start:
            yield Loss(where, f"{where} now ends at {end}; it was read up to offset {start}", known is None)


class Patience:
    """``minOffsetsPerTrigger`` and ``maxTriggerDelay``: wait for enough, but not for ever."""

    def __init__(self, least: int | None, delay_ms: float) -> None:
        self._least = least
        self._delay_ms = delay_ms
        self._last_ms: float | None = None

    def waits(self, offsets: int, now_ms: float) -> bool:
        """Whether to put off a batch of so many offsets. The first one is never put off."""
        if self._least is None:
            return False
        is_due = self._last_ms is None or now_ms - self._last_ms >= self._delay_ms
        if offsets < self._least and not is_due:
            return True
        self._last_ms = now_ms
        return False
