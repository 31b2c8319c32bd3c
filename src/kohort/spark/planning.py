"""Which offsets a batch reads and how they are cut into tasks: plain functions of offsets."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from kohort.model.topics import TopicPartition
from kohort.spark.offsets import OffsetRange, Offsets


def ranges(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What lies between, in order; a partition with nothing to read, or in one of the two alone, has none."""
    return [
        OffsetRange(topic, partition, start, end)
        for (topic, partition), end in sorted(ends.items())
        for start in [starts.get(TopicPartition(topic, partition), end)]
        if start < end
    ]


def split(whole: OffsetRange, at_most: int) -> tuple[OffsetRange, ...]:
    """Cut a range into as few equal pieces as hold ``at_most`` offsets each; an empty range gives none."""
    return _cut(whole, -(-whole.size // at_most))


def _cut(whole: OffsetRange, pieces: int) -> tuple[OffsetRange, ...]:
    """Equal pieces, to within one offset; none of them empty."""
    pieces = min(pieces, whole.size)
    borders = [whole.start + whole.size * number // pieces for number in range(pieces + 1)] if pieces else []
    return tuple(whole._replace(start=start, end=end) for start, end in pairwise(borders))


def tasks(
    planned: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """One range for each task: cut to ``max_records`` each, then large ones to reach ``min_partitions``.

    As in Spark's connector the number is approximate: it follows the share of each range.
    """
    whole = [one for one in planned if one.size > 0]
    pieces = [piece for one in whole for piece in split(one, max_records)] if max_records else whole
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    return _cut_large(pieces, min_partitions)


def shares(
    pieces: Sequence[OffsetRange], at_most: int, *, min_partitions: int | None = None
) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task: small ones share tasks of up to ``at_most`` offsets.

    A task costs as much as reading some ten thousand records. There are at least ``min_partitions`` tasks,
    if there are as many ranges.
    """
    found = _packed(pieces, at_most)
    while len(found) < min(min_partitions or 0, len(pieces)):
        at_most //= 2
        found = _packed(pieces, at_most)
    return found


def _packed(pieces: Sequence[OffsetRange], at_most: int) -> list[tuple[OffsetRange, ...]]:
    packed: list[list[OffsetRange]] = []
    room = 0
    for piece in pieces:
        if piece.size > room or not packed:
            packed.append([])
            room = at_most
        packed[-1].append(piece)
        room -= piece.size
    return [tuple(one) for one in packed]


def _cut_large(pieces: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Cut in proportion to size. Ranges too small to be cut do not count in the shares of the others."""
    total = sum(piece.size for piece in pieces)
    small = {piece for piece in pieces if _share(piece.size, total, wanted) == 1}
    large_total = total - sum(piece.size for piece in small)
    large_wanted = max(wanted - len(small), 1)
    return [
        part
        for piece in pieces
        for part in _cut(piece, 1 if piece in small else _share(piece.size, large_total, large_wanted))
    ]


def _share(size: int, total: int, wanted: int) -> int:
    return max(1, (2 * size * wanted + total) // (2 * total))  # rounded half up


def limit(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], at_most: int) -> Offsets:
    """Ends nearer to the starts: about ``at_most`` offsets in all, shared out in proportion to what there is.

    Every partition with something to read gets at least one offset, so that none starves.
    """
    sizes = {where: max(0, end - starts.get(where, end)) for where, end in ends.items()}
    total = sum(sizes.values())
    if total <= at_most:
        return dict(ends)
    return {
        where: starts[where] + min(size, max(1, at_most * size // total)) if size else ends[where]
        for where, size in sizes.items()
    }


def volume(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between."""
    return sum(max(0, end - starts.get(where, end)) for where, end in ends.items())
