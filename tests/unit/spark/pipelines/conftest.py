"""A real table on a real disk, filled without Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.ledger import Landing, LedgerPosition, PendingMove
from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.table import Table

Fill = Callable[[str, int, int], Table]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """``fill(date, first, end)`` lands these offsets of orders-0 in one file of that day."""
    pytest.importorskip("pyarrow")
    from pyarrow import lib as pa
    from pyarrow.parquet import write_table

    files = LocalFiles(tmp_path)

    def land(date: str, first: int, end: int) -> Table:
        table = Table(files, "orders")
        staged = f"_kohort/_staging/{first}.parquet"
        files.at(staged).parent.mkdir(parents=True, exist_ok=True)
        offsets = list(range(first, end))
        content = pa.Table.from_pydict(
            {"partition": pa.array([0] * len(offsets), pa.int32()), "offset": offsets}
        )
        write_table(content, files.at(staged))  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        landing = Landing(LedgerPosition("id", 0), Span(first, end), len(offsets))
        table.publish([landing], [PendingMove(staged, f"orders/date={date}/{first:06}.parquet")])
        return table

    return land
