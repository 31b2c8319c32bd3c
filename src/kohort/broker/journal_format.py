"""An event of the core as a JSON document of the journal. The schema is in ``docs/reference/journal.md``."""

import base64
import json
from dataclasses import fields
from typing import Any

from kohort.groups.causes import as_json as cause_as_json
from kohort.groups.events import Event
from kohort.model.errors import ErrorCode
from kohort.model.ids import WallTime

SCHEMA_VERSION = 1

# The name of a parked request means nothing outside the process.
_LEFT_OUT = frozenset({"group_id", "cause", "reply_to"})


def event_document(event: Event, at: WallTime) -> bytes:
    """One event, with its cause both as numbers and as a sentence."""
    details = {
        each.name: _plain(getattr(event, each.name)) for each in fields(event) if each.name not in _LEFT_OUT
    }
    return _compact(
        {
            "schema": SCHEMA_VERSION,
            "at": at,
            "group": event.group_id,
            "event": type(event).__name__,
            "details": details,
            "cause": cause_as_json(event.cause),
        }
    )


def gap_document(dropped: int, at: WallTime) -> bytes:
    """What stands in the place of events the journal could not keep up with."""
    return _compact(
        {"schema": SCHEMA_VERSION, "at": at, "event": "JournalGap", "details": {"dropped": dropped}}
    )


def _compact(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field of any event
    """Bytes become base64, sets sorted lists, named tuples objects, error codes their names."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        if hasattr(value, "_asdict"):
            return {name: _plain(item) for name, item in value._asdict().items()}
        return [_plain(item) for item in value]
    return value
