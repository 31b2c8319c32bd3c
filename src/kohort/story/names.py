"""How things are written in a story: members by short names, partitions in ranges, spans of time."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from kohort.model.topics import TopicPartition
from kohort.story.rebalance import StoryMember

_UUID = re.compile(r"-?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_KAFKA_UUID = re.compile(r"[0-9A-Za-z+/_-]{22}")  # 16 bytes in base64: all that the id of a KIP-848 member is
_TAILS = (4, 6, 8, 12, 36)
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_UNITS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", _SECOND, "s"))


def short_names(people: Mapping[str, StoryMember]) -> dict[str, str]:
    """A short name for each member id: what it is called, and as much of the id's end as tells it apart.

    An id without a UUID at its end is short enough as it is, and so is one without any other name.
    """
    names = {one: one for one in people if not _is_long(one) or not _label(people[one])}
    for length in _TAILS:
        waiting = [one for one in people if one not in names]
        tried = {one: f"{_label(people[one])}-…{one[-length:]}" for one in waiting}
        seen = Counter([*names.values(), *tried.values()])
        names.update((one, name) for one, name in tried.items() if seen[name] == 1)
    return {one: names.get(one, one) for one in people}


def _is_long(member_id: str) -> bool:
    return _UUID.search(member_id) is not None or _KAFKA_UUID.fullmatch(member_id) is not None


def _label(person: StoryMember) -> str:
    if person.instance_id or person.client_id:
        return person.instance_id or person.client_id
    return "" if _KAFKA_UUID.fullmatch(person.member_id) else _UUID.sub("", person.member_id)


def show_span(milliseconds: int) -> str:
    """A span of time as people say it."""
    if milliseconds < _SECOND:
        return f"{milliseconds} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds / _SECOND:.{2 if milliseconds < 10 * _SECOND else 1}f} s"
    unit, name, smaller, smaller_name = next(one for one in _UNITS if milliseconds >= one[0])
    rest = milliseconds % unit // smaller
    return f"{milliseconds // unit} {name}" + (f" {rest} {smaller_name}" if rest else "")


def show_partitions(partitions: Iterable[TopicPartition]) -> str:
    """``orders 0-3, 7; payments 1``."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return "; ".join(f"{topic} {_ranges(numbers)}" for topic, numbers in by_topic.items())


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def counted(number: int, noun: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
