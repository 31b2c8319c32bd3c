"""Lag and membership of streaming queries, out of Spark's progress events.

``query.lastProgress`` has them in ``sources[0]["latestOffset"]``; ``watch_lag`` keeps the newest of each.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kohort.spark.progress import ABOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class QueryLag:
    """How far a query is behind the ends of its logs, and its place in its group."""

    query: str  # its name, or its id if it has none
    lag: int
    largest_lag: int  # of one partition
    partitions: int
    input_rows_per_second: float
    processed_rows_per_second: float
    group: str | None = None
    generation: int = -1


def lags(query: str, progress: Mapping[str, Any]) -> Iterator[QueryLag]:
    """What ``query.lastProgress`` says of each Kohort source; sources of other kinds say nothing."""
    for source in progress["sources"]:
        about = _about(source.get("latestOffset"))
        if about is not None:
            yield QueryLag(
                query,
                about["lag"],
                about["largest_lag"],
                about["partitions"],
                source.get("inputRowsPerSecond") or 0.0,
                source.get("processedRowsPerSecond") or 0.0,
                about.get("group"),
                about.get("generation", -1),
            )


def _about(offset: object) -> Mapping[str, Any] | None:
    """Spark shows an offset as an object or as the text of one."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    found = offset.get(ABOUT) if isinstance(offset, Mapping) else None
    return found if isinstance(found, Mapping) else None


class LagListener(StreamingQueryListener):
    """Keeps the newest lag of each query."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: dict[str, QueryLag] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  (Spark's name)
        progress = event.progress
        query = progress.name or str(progress.id)
        for one in lags(query, json.loads(progress.json)):
            self.newest[query] = one

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  (Spark's name)
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  (Spark's name)
        pass


def watch_lag(spark: "SparkSession") -> LagListener:
    """Follow the lag of all queries of this session: ``newest`` of the listener has it by query."""
    listener = LagListener()
    spark.streams.addListener(listener)
    return listener
