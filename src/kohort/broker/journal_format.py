"""An event of the core as a JSON document of the journal. The schema is in ``docs/reference/journal.md``."""

import json
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any, TypeAlias

from kohort.groups.causes import as_json as cause_as_json
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState
from kohort.groups.consumer.events import ConsumerGroupLoaded, CurrentAssignmentStored, TargetStored
from kohort.groups.events import Event
from kohort.groups.field_names import FieldNames
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicId, WallTime
from kohort.model.topics import show_topic_id

SCHEMA_VERSION = 1

TopicNames: TypeAlias = Callable[[TopicId], str | None]
"""The name of a topic, by its id; ``None`` if it does not exist any more."""

# Group and cause have places of their own; the name of a parked request means nothing outside the process.
_DETAILS = FieldNames(left_out=("group_id", "cause", "reply_to"))
_CURRENT = FieldNames()


def event_document(event: Event, at: WallTime, topic_name: TopicNames) -> bytes:
    """One event, with its cause both as numbers and as a sentence, and the names of topics in it."""
    kind = type(event)
    document = {
        "schema": SCHEMA_VERSION,
        "at": at,
        "group": event.group_id,
        "event": kind.__name__,
        "details": {name: _plain(getattr(event, name)) for name in _DETAILS[kind]},
        "cause": cause_as_json(event.cause),
    }
    topics = {
        show_topic_id(topic): name for topic in _topics_in(event) if (name := topic_name(topic)) is not None
    }
    if topics:
        document["topics"] = topics
    return _compact(document)


def _topics_in(event: Event) -> set[TopicId]:
    """The topics that an event of a consumer group knows by their ids."""
    match event:
        case TargetStored():
            return set(event.partitions)
        case CurrentAssignmentStored():
            return {*event.current.assigned, *event.current.pending_revocation}
        case ConsumerGroupLoaded():
            currents = [one.current for one in event.image]
            held = [*(one.assigned for one in currents), *(one.pending_revocation for one in currents)]
            return set[TopicId]().union(*held, *(one.target for one in event.image))
        case _:
            return set()


def gap_document(dropped: int, at: WallTime) -> bytes:
    """What stands in the place of events the journal could not keep up with."""
    return _compact(
        {"schema": SCHEMA_VERSION, "at": at, "event": "JournalGap", "details": {"dropped": dropped}}
    )


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_AS_IT_IS = frozenset({str, int, bool, type(None)})


def _compact(document: dict[str, Any]) -> bytes:
    return _encode(document).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field of any event
    """Bytes become base64, sets sorted lists, named tuples objects, codes their names, topics their ids."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return {show_topic_id(topic): _plain(partitions) for topic, partitions in value.items()}
    if isinstance(value, CurrentAssignment):
        return {name: _plain(getattr(value, name)) for name in _CURRENT[CurrentAssignment]}
    if isinstance(value, MemberState):
        return value.name
    if isinstance(value, tuple):
        if (names := getattr(value, "_fields", None)) is not None:
            return {name: _plain(item) for name, item in zip(names, value, strict=True)}
        return [_plain(item) for item in value]
    return value
