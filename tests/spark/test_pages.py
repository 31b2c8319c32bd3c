"""The pages that show Spark, whole: as tests/docs/test_pages.py does it for the others."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import Page, all_pages
from tests.docs.reader import follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = all_pages()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.needs_spark], ids=str)
def test_a_page_that_shows_spark_runs_in_the_session_of_the_tests(
    page: Page, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path, lambda block: "interop" not in block.marks) > 0
    assert spark.range(1).count() == 1  # the session is still there for others


@pytest.mark.interop  # for its time: every command that needs Spark starts a JVM of its own
@pytest.mark.timeout(480)
@pytest.mark.parametrize("page", [page for page in PAGES if page.needs_interop], ids=str)
def test_the_commands_that_start_spark_themselves_run(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path, lambda block: not block.needs_spark) > 0
