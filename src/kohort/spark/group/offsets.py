"""The offset of a query that is a member of a group: it describes its own ranges. Pure.

``{"orders": {"0": {"from": 500, "to": 700, "epoch": 7, "id": "0TJzy7VpQPq8Z3Zb6rYWHw"}}}``: the batch that
ends here reads 500 to 699 of orders-0, planned as a member of generation 7, of the topic with this id. A
partition with nothing to read in the batch is carried along with ``from`` equal to ``to``: up to there this
checkpoint has it behind itself. So a batch can be read again from its end offset alone, by any owner of its
partitions by then, and a partition may go, come back and start anywhere without a record being read twice
under one checkpoint. The id is left out where it is not known: checkpoints of earlier versions have none.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.model.topics import TopicPartition
from kohort.spark.errors import OptionError
from kohort.spark.offsets import OffsetRange, topic_partition

GroupOffsetJson = dict[str, dict[str, dict[str, int | str]]]


class GroupOffsetSpan(NamedTuple):
    """One partition in one batch: records with ``start <= offset < end``."""

    start: int
    end: int
    epoch: int  # the generation it was planned in
    topic_id: str = ""  # a topic that is deleted and made again has another one; "": not known


Spans = Mapping[TopicPartition, GroupOffsetSpan]


def to_json(spans: Spans) -> GroupOffsetJson:
    """In order of topics and partition numbers: Spark compares the text."""
    nested: GroupOffsetJson = {}
    for where in sorted(spans):
        start, end, epoch, topic_id = spans[where]
        described: dict[str, int | str] = {"from": start, "to": end, "epoch": epoch}
        nested.setdefault(where.topic, {})[str(where.partition)] = described
        if topic_id:
            described["id"] = topic_id
    return nested


def from_json(offset: Mapping[str, Mapping[str, object]]) -> dict[TopicPartition, GroupOffsetSpan]:
    """The reverse. OptionError for the offset of a query that was no member: its checkpoint is another's."""
    return {
        topic_partition(topic, int(number)): _span(span)
        for topic, numbers in offset.items()
        for number, span in numbers.items()
    }


def _span(span: object) -> GroupOffsetSpan:
    if not isinstance(span, dict) or not {"from", "to", "epoch"} <= span.keys():
        raise OptionError(
            "the checkpoint was written by a query that was not a member of a group",
            hint='start with a new checkpoint; with "commit" set to "group" before, its offsets are the '
            "group's, and nothing is lost",
        )
    return GroupOffsetSpan(span["from"], span["to"], span["epoch"], span.get("id", ""))


def held_in(spans: Spans) -> set[TopicPartition]:
    """The partitions that the member held when the batch was planned: the others are carried along."""
    read = {span.epoch for span in spans.values() if span.start < span.end}
    now = max(read or {span.epoch for span in spans.values()}, default=-1)
    return {where for where, span in spans.items() if span.epoch == now}


def ranges_of(spans: Spans) -> list[OffsetRange]:
    """What there is to read, in order."""
    return [
        OffsetRange(where.topic, where.partition, spans[where].start, spans[where].end)
        for where in sorted(spans)
        if spans[where].start < spans[where].end
    ]
