"""SQL over an archive, on a Spark that is not there."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from kohort.spark import sessions
from kohort.spark.pipelines.queries import QueryError, ask, what_is_wrong


class FakeSpark:
    """Notes what it is told; understands no query."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.sparkContext = SimpleNamespace(setLogLevel=self.told.append)

    def sql(self, query: str) -> Any:  # noqa: ANN401 (it gives none)
        raise AnalysisException(f"no {query}\nat line 1\nand much more")

    def stop(self) -> None:
        self.told.append("stop")


def test_a_query_that_fails_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark()
    monkeypatch.setattr(sessions, "session", lambda *_, **__: spark)
    logger = logging.getLogger("SQLQueryContextLogger")
    monkeypatch.setattr(logger, "disabled", False)
    with pytest.raises(QueryError) as error:
        ask(tmp_path, "cake", 5)
    assert str(error.value) == "no cake (the tables are none)"
    assert spark.told == ["OFF", "stop"], "no stack traces, and Spark is gone"
    assert logger.disabled


def test_a_syntax_error_is_shown_with_its_place() -> None:
    text = "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'.\n\n== SQL ==\nselct 1\n^^^\n"
    assert what_is_wrong(text) == "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'.\nselct 1\n^^^\n"


def test_stack_traces_are_left_out() -> None:
    assert what_is_wrong("[NO_TABLE] There is none.\n'Project\n\nJVM stacktrace:\nat a.b\n") == (
        "[NO_TABLE] There is none."
    )
