"""What no statement and no connection of a cluster may do (cluster 10)."""

import re

import pytest
from tests.unit.log.postgres.stage import Stage, on_stage

from kohort.log.postgres import sql
from kohort.log.postgres.connections import Database, Purpose

STATEMENTS = {name: text for name, text in vars(sql).items() if name.isupper() and isinstance(text, str)}


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - {"CREATE_MIGRATIONS"}))
def test_no_statement_takes_the_start_of_its_transaction_for_the_time(name: str) -> None:
    assert not re.search(r"\bnow\(\)|current_timestamp", STATEMENTS[name], re.IGNORECASE)


def test_appends_notify_nobody() -> None:
    for text in (sql.APPEND_ONE, sql.APPEND_MANY, sql.SAVE_PRODUCERS, sql.MOVE_START):
        assert "notify" not in text.lower()


def test_leaders_have_no_index(database: Database) -> None:
    async def story(stage: Stage) -> None:
        rows = await stage.admin.fetch(
            "SELECT indexdef FROM pg_indexes WHERE tablename = 'partitions' AND schemaname = $1",
            database.schema,
        )
        assert len(rows) == 3
        assert not any(re.search(r"\bleader\b", row["indexdef"]) for row in rows)

    on_stage(database, story)


def test_every_connection_has_the_settings_of_its_purpose(database: Database) -> None:
    """Commits are on the disk; a node that stands still in a transaction locks nothing for long."""

    async def story(stage: Stage) -> None:
        for purpose in Purpose:
            connection = await database.connect(purpose)
            shown = {
                name: await connection.fetchval(f"SHOW {name}")
                for name in (
                    "synchronous_commit",
                    "default_transaction_isolation",
                    "idle_in_transaction_session_timeout",
                    "lock_timeout",
                )
            }
            assert shown.pop("lock_timeout") == ("2s" if purpose is Purpose.LEASE else "5s")
            assert list(shown.values()) == ["on", "read committed", "1s"]
            await connection.close()

    on_stage(database, story)
