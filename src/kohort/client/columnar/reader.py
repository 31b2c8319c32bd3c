"""``ColumnReader``: Arrow batches for programs without an event loop, such as the tasks of a Spark job."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kohort.client.cluster import Cluster
from kohort.client.columnar.options import ColumnOptions
from kohort.client.columnar.source import DEFAULTS, next_portion, open_range
from kohort.client.loop_thread import LoopThread, OwnerProcess
from kohort.client.options import DEFAULTS as CLIENT_DEFAULTS
from kohort.client.options import ClientOptions
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from pyarrow import lib as pa


class _Link:
    """A cluster on a loop of its own, of one process."""

    def __init__(self, bootstrap: str, options: ClientOptions) -> None:
        self.process = OwnerProcess("column reader")
        # Not entered: that fails at once without a broker, and a fetch has time to wait for one.
        self.cluster = Cluster(bootstrap, options)
        self.loop = LoopThread("kohort columns")

    def close(self) -> None:
        self.loop.do(self.cluster.close)
        self.loop.stop()


# Connections of a parent process. They are kept, unused: to let go of them would close them under the parent.
_INHERITED: list[_Link] = []


class ColumnReader:
    """Reads ranges of partitions, one after the other or several at once, over connections it keeps.

    Connects with the first ``fetch``, which waits for a broker as long as for an answer. May stay open as
    long as the process lives, and be used in a process that was forked meanwhile: that one connects anew.
    """

    def __init__(self, bootstrap: str, options: ClientOptions = CLIENT_DEFAULTS) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._link: _Link | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<ColumnReader of {self._bootstrap}: {'idle' if self._link is None else 'connected'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next ``fetch`` would open others."""
        link, self._link = self._link, None
        if link is None:
            return
        if link.process.is_another:
            _INHERITED.append(link)
        else:
            link.close()

    def fetch(
        self, topic: str, partition: int, start: int, end: int, options: ColumnOptions = DEFAULTS
    ) -> "Iterator[pa.RecordBatch]":
        """The records with ``start <= offset < end``, in order; what may go wrong is said at ``fetch``.

        The next portion is fetched while the caller works on this one.
        """
        where = TopicPartition(TopicName(topic), Partition(partition))
        reading = open_range(where, start, end, options)
        link = self._connected()

        def ask() -> Future[PartitionData] | None:
            return None if reading.is_done else link.loop.submit(next_portion(link.cluster, reading, options))

        asked = ask()
        try:
            while asked is not None:
                batches = reading.receive(asked.result())
                asked = ask()
                yield from batches
        finally:
            if asked is not None:
                asked.cancel()

    def _connected(self) -> _Link:
        link = self._link
        if link is not None and link.process.is_another:
            _INHERITED.append(link)
            self._link = link = None
            self._lock = threading.Lock()  # a thread of the parent may have held it
        with self._lock:
            if self._link is None:
                self._link = _Link(self._bootstrap, self._options)
            return self._link
