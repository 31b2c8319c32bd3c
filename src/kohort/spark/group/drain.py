"""``kohort.spark.drain``: end a query so that nothing it has read is read again by the next reader."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kohort.model.errors import KohortError
from kohort.spark.group.checkpoint import Checkpoint, local_path

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 0.05


class DrainError(KohortError):
    """The request did not reach the query, or the query did not stop in time. It is still running."""


class Query(Protocol):
    """The part of Spark's ``StreamingQuery`` that draining needs."""

    def awaitTermination(self, timeout: int | None = None) -> bool | None: ...  # noqa: N802  (Spark's name)
    def stop(self) -> None: ...


def drain(query: "StreamingQuery", *, timeout_s: float = 60.0, checkpoint: str | None = None) -> None:
    """Let the running batch end, have it committed, plan no other one, then stop the query.

    The query needs the option ``kohort.checkpoint``, a local path; ``checkpoint`` need only be given where
    Spark does not tell it (Spark Connect). Raises DrainError if the query has not come to rest after
    ``timeout_s``, and what the query failed with if it does.
    """
    location = checkpoint or _checkpoint_of(query)
    directory = local_path(location)
    if directory is None or not directory.is_dir():
        raise DrainError(
            f"cannot leave a note in the checkpoint {location!r}",
            hint="draining needs a checkpoint on this machine's file system",
        )
    drain_at(query, directory, timeout_s)


def drain_at(query: Query, directory: Path, timeout_s: float) -> None:
    """The same, with the checkpoint at hand."""
    notes, token = Checkpoint(directory), uuid.uuid4().hex
    try:
        for _ in range(max(1, int(timeout_s / _LOOK_SECONDS))):
            notes.ask_to_drain(token)  # again and again: a runner that just starts clears old notes away
            if query.awaitTermination(_LOOK_SECONDS) or notes.has_drained(token):  # type: ignore[arg-type]  # seconds may be fractions
                query.stop()
                return
    finally:
        notes.forget_drain()
    raise DrainError(
        f"the query has not come to rest within {timeout_s:g} s",
        hint='does it have the option "kohort.checkpoint", and is its trigger shorter than that?',
    )


def _checkpoint_of(query: "StreamingQuery") -> str:
    try:
        return str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    except Exception as error:  # whatever Spark Connect, or another version of Spark, makes of this
        raise DrainError(
            "Spark does not tell where the checkpoint of this query is", hint='give it as "checkpoint"'
        ) from error
