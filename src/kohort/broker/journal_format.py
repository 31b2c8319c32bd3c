"""An event of the core as a JSON document of the journal. The schema is in ``docs/reference/journal.md``."""

import json
from binascii import b2a_base64
from typing import Any

from kohort.groups.causes import as_json as cause_as_json
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState
from kohort.groups.events import Event
from kohort.groups.field_names import FieldNames
from kohort.model.errors import ErrorCode
from kohort.model.ids import WallTime
from kohort.model.topics import show_topic_id

SCHEMA_VERSION = 1

# Group and cause have places of their own; the name of a parked request means nothing outside the process.
_DETAILS = FieldNames(left_out=("group_id", "cause", "reply_to"))
_CURRENT = FieldNames()


def event_document(event: Event, at: WallTime) -> bytes:
    """One event, with its cause both as numbers and as a sentence."""
    kind = type(event)
    return _compact(
        {
            "schema": SCHEMA_VERSION,
            "at": at,
            "group": event.group_id,
            "event": kind.__name__,
            "details": {name: _plain(getattr(event, name)) for name in _DETAILS[kind]},
            "cause": cause_as_json(event.cause),
        }
    )


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
