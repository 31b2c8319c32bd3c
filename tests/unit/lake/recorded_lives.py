"""Made-up lives of a group as a lake would have recorded them."""

from typing import Any

from kohort.broker.journal_format import event_document
from kohort.lake.record_rows import RawRecord, row_of
from kohort.lake.snapshots import snapshots
from kohort.lake.whatif.happenings import ClientSettings, Recording
from kohort.lake.whatif.recording import read_recording
from kohort.lake.whatif.replay import trace
from kohort.model.ids import WallTime

Rows = list[dict[str, Any]]


def lake_rows(life: Recording, settings: ClientSettings, seed: int) -> tuple[Rows, Rows]:
    """Rows of ``group_snapshots`` and of ``journal``, times in milliseconds."""
    records, journal = landed_rows(life, settings, seed)
    return list(snapshots(records, {})), journal


def landed_rows(life: Recording, settings: ClientSettings, seed: int) -> tuple[Rows, Rows]:
    """Rows of ``records`` and of ``journal``, times in milliseconds."""
    traced = trace(life, settings, seed)
    empty = {"src_partition": 0, "problem": None, "member_id": None, "details": None}
    records = [
        empty | row_of(RawRecord(one.offset, one.timestamp, one.key, one.value)) for one in traced.records
    ]
    journal = [
        {
            "group_id": "billing",
            "event_id": number,
            "ts": at,
            "document": event_document(event, WallTime(at), lambda _: None).decode(),
        }
        for number, (at, event) in enumerate(traced.events)
    ]
    return records, journal


def recorded(life: Recording, settings: ClientSettings, seed: int, *, has_journal: bool) -> Recording:
    """What can be read of a life, of which the coordinator has seen only a part."""
    told, journal = lake_rows(life, settings, seed)
    return read_recording("billing", told, journal if has_journal else [])
