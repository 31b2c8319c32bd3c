"""Where reading starts and stops: what the options say, and what that comes to within a log. No I/O."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from kohort.cli.settings_text import InputError
from kohort.client.admin.topics import OffsetSpec
from kohort.model.topics import TopicPartition

GROUP = "group"
_HINT = "say beginning, end, an offset, -N for N before the end, or a time such as 2026-01-31T12:00"


class StartAt(NamedTuple):
    """Where to begin in a partition: at a named place or time (``spec``), then ``skip`` offsets further on.

    An absolute offset has no spec. A negative ``skip`` goes back, as in "the last ten".
    """

    spec: int | None = OffsetSpec.EARLIEST
    skip: int = 0


class Bounds(NamedTuple):
    """What is known of the partitions: first and next offset, and what a time leads to."""

    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    at_time: Mapping[TopicPartition, int | None]  # None: nothing is as new


def parse_place(option: str, text: str) -> StartAt:
    """``beginning``, ``end``, an offset, ``-N``, ``@MILLISECONDS`` or a time; raises InputError."""
    match text:
        case "beginning" | "earliest":
            return StartAt(OffsetSpec.EARLIEST)
        case "end" | "latest":
            return StartAt(OffsetSpec.LATEST)
    try:
        if text.startswith("@"):
            return StartAt(int(text[1:]))
        offset = int(text)
    except ValueError:
        return StartAt(_milliseconds(option, text))
    return StartAt(OffsetSpec.LATEST, offset) if offset < 0 else StartAt(None, offset)


def _milliseconds(option: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option}: cannot understand {text!r}", hint=_HINT) from None
    if moment.tzinfo is None:
        moment = moment.astimezone()  # without a zone it is the time on the wall here
    return round(moment.astimezone(UTC).timestamp() * 1_000)


def offsets_of(place: StartAt, bounds: Bounds) -> dict[TopicPartition, int]:
    """The place in each partition; one that is gone, or not there yet, is the nearest there is."""
    return {
        partition: min(max(_origin(place, partition, bounds) + place.skip, bounds.first[partition]), end)
        for partition, end in bounds.end.items()
    }


def _origin(place: StartAt, partition: TopicPartition, bounds: Bounds) -> int:
    match place.spec:
        case None:
            return 0
        case OffsetSpec.EARLIEST:
            return bounds.first[partition]
        case OffsetSpec.LATEST:
            return bounds.end[partition]
        case _:
            found = bounds.at_time[partition]
            return bounds.end[partition] if found is None else found
