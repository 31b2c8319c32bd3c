"""Ends of transactions as Kafka writes them into a log. Kohort reads them and writes none."""

from struct import pack

from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.control import ControlType


def end_marker(kind: ControlType, at: int, fields: BatchFields, coordinator_epoch: int = 0) -> bytes:
    """The control batch of one marker; of ``fields``, offset, leader epoch and producer count."""
    record = NewRecord(at, pack(">hh", 0, kind), pack(">hi", 0, coordinator_epoch))
    return build_batch([record], fields._replace(transactional=True, control=True))
