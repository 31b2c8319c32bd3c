"""A record as an application gets it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.records.batch import Header

Deserializer = Callable[[bytes], object]
"""Makes something of the bytes of a key or value; None is never passed to it."""


class ConsumerRecord(NamedTuple):
    """One record and where it stood. Key and value are bytes or None unless a deserializer is set."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Sequence[Header] = ()
    leader_epoch: int = -1
    timestamp_type: int = 0  # 0: set by the producer, 1: by the broker at the append


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How bytes become records."""

    check_crcs: bool = True
    read_committed: bool = False
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    @property
    def deserializes(self) -> bool:
        return self.key_deserializer is not None or self.value_deserializer is not None
