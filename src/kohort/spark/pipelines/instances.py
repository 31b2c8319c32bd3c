"""Which instance of a pipeline this process is: each has its own checkpoint and place to write aside."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from kohort.model.errors import KohortError
from kohort.model.topics import is_legal_name
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.landing import STAGING
from kohort.spark.pipelines.table import STATE, recover_all, tables

_MOST = 1_000


class InstanceError(KohortError):
    """The instance cannot be had."""


@contextmanager
def claimed(files: LocalFiles, wanted: str | None) -> Iterator[str]:
    """Be the instance of this name, or the first number that is free, until the block or the process ends.

    What an instance of that name has left unfinished is finished or removed.
    """
    if wanted is not None and not is_legal_name(wanted):
        raise InstanceError(
            f"{wanted!r} cannot be the name of an instance",
            hint="letters, digits, dots, dashes and underscores",
        )
    for name in [wanted] if wanted else map(str, range(1, _MOST + 1)):
        with files.locked_if_free(f"{STATE}/_instances/{name}.lock") as ours:
            if ours:
                recover_all(tables(files.root))  # first: what has landed may still be where it was written
                files.remove_tree(f"{STAGING}/{name}")
                yield name
                return
    raise InstanceError(
        f"instance {wanted!r} is running already" if wanted else f"{_MOST} instances are running already",
        hint=f"leave --instance out to be another one beside it; the archive is {files.root}",
    )


def checkpoint_of(cluster_id: str, group: str, instance: str) -> str:
    """Where Spark keeps the progress of an instance; offsets mean nothing in another cluster."""
    return f"{STATE}/_checkpoints/{quote(cluster_id, safe='')}/{quote(group, safe='')}/{instance}"
