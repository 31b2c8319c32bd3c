"""The journal: every event of every group with its cause, as a topic that anybody can read.

``__kohort_journal`` is keyed by group, one JSON document a record (``docs/reference/journal.md``).
Events get here when they are true, which for durable ones means stored. The journal is never in
the way: it is written in the background, and if it cannot keep up it drops and says how much.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable

from kohort.broker.clock import Clock
from kohort.broker.topics import NewTopic, Topics
from kohort.groups.events import Event
from kohort.groups.journal import as_json
from kohort.log.log import Append, Storage
from kohort.model.errors import RefusedError
from kohort.model.topics import JOURNAL
from kohort.records.build import build_batch
from kohort.records.record import NewRecord

logger = logging.getLogger("kohort.journal")

SCHEMA_VERSION = 1
_CAPACITY = 10_000  # events that may wait; about as many as a 1,000-member group makes in two rebalances
_BATCH = 500
_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "604800000", "segment.bytes": "67108864"}
