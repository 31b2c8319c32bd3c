"""Topics and their partitions: names, what a name may look like, how an id is written."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.model.ids import Partition, TopicId, TopicName

CONSUMER_OFFSETS = TopicName("__consumer_offsets")
JOURNAL = TopicName("__kohort_journal")

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, JOURNAL})

LONGEST_NAME = 249
_LEGAL_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_NAME}}}\Z")


class TopicPartition(NamedTuple):
    """One partition of one topic; a tuple, because masses of them are made."""

    topic: TopicName
    partition: Partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. A change makes a new value, so that a stale one is recognisable after any ``await``."""

    name: TopicName
    topic_id: TopicId
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)  # only what was set for this topic


def is_legal_name(name: str) -> bool:
    """Kafka's rule for topic names: 1 to 249 of ``[a-zA-Z0-9._-]``, but not ``.`` or ``..``."""
    return _LEGAL_NAME.match(name) is not None and name not in (".", "..")


def why_illegal(name: str) -> str:
    """A sentence on what is wrong with a name that is not legal."""
    if len(name) > LONGEST_NAME:
        return f"A topic name has at most {LONGEST_NAME} characters; this one has {len(name)}: {name!r}."
    if name in ("", ".", ".."):
        return f"A topic cannot be called {name!r}."
    return f"A topic name has letters a to z, digits, '.', '_' and '-' only: {name!r}."


def collision_key(name: str) -> str:
    """Names with one key collide in metric names (``.`` becomes ``_``): Kafka refuses the second."""
    return name.replace(".", "_")


def show_topic_id(topic_id: TopicId) -> str:
    """Kafka's text form of an id: URL-safe base64 of the 16 bytes, without padding (22 characters)."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
