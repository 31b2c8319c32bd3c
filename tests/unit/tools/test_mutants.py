"""The sample of ``make mutants`` and how its results are counted."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tools.mutants import Mutant, keep_a_sample, report, results


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session as ``cosmic-ray init`` leaves it: three changes on each of 21 lines, one unseen."""
    path = tmp_path / "session.sqlite"
    (tmp_path / "a.py").write_text("@dataclass(frozen=True)\n" + "x = not 1\n" * 20)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE work_items (job_id)")
        database.execute(
            "CREATE TABLE mutation_specs (job_id, operator_name, module_path, start_pos_row, start_pos_col)"
        )
        database.execute("CREATE TABLE work_results (job_id, test_outcome, diff)")
        for place in range(1, 22):
            for operator in ("core/AddNot", "core/NumberReplacer", "core/ReplaceBinaryOperator_BitOr_Add"):
                job = f"{place} {operator}"
                database.execute("INSERT INTO work_items VALUES (?)", (job,))
                database.execute(
                    "INSERT INTO mutation_specs VALUES (?, ?, 'a.py', ?, 0)", (job, operator, place)
                )
        database.commit()
    return path


def kept(session: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(session)) as database:
        return database.execute(
            "SELECT operator_name, start_pos_row FROM mutation_specs "
            "JOIN work_items USING (job_id) ORDER BY 2"
        ).fetchall()


def test_a_sample_has_one_mutant_for_a_place_and_none_that_no_test_can_see(session: Path) -> None:
    assert keep_a_sample(session.parent, session, 8, seed=1) == (8, 20)
    rows = kept(session)
    assert len({line for _, line in rows}) == len(rows) == 8
    assert 1 not in {line for _, line in rows}, "the line of the decorator"
    assert {operator for operator, _ in rows} <= {"core/AddNot", "core/NumberReplacer"}


def test_a_seed_names_a_sample(session: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again.sqlite", tmp_path / "other.sqlite"
    for copy in (again, other):
        copy.write_bytes(session.read_bytes())
    for path, seed in ((session, 1), (again, 1), (other, 2)):
        keep_a_sample(path.parent, path, 8, seed)
    assert kept(session) == kept(again)
    assert kept(session) != kept(other)


def test_a_sample_larger_than_the_package_is_the_whole_package(session: Path) -> None:
    assert keep_a_sample(session.parent, session, 500, seed=1) == (20, 20)


def test_only_survivors_count_as_unnoticed(session: Path) -> None:
    with closing(sqlite3.connect(session)) as database:
        for job, outcome in (
            ("1 core/AddNot", "SURVIVED"),
            ("2 core/AddNot", "KILLED"),
            ("3 core/AddNot", "KILLED"),
        ):
            database.execute("INSERT INTO work_results VALUES (?, ?, '')", (job, outcome))
        database.commit()
    assert [(mutant.line, mutant.killed) for mutant in results(session)] == [(1, False), (2, True), (3, True)]


def test_a_survivor_is_shown_with_its_change(capsys: pytest.CaptureFixture[str]) -> None:
    diff = "--- a.py\n+++ b.py\n@@ -1 +1 @@\n kept\n-old\n+new"
    report("groups", [Mutant("a.py", 3, "AddNot", False, diff), Mutant("a.py", 9, "AddNot", True, "")])
    assert capsys.readouterr().out == (
        "\nsurvived: a.py:3 (AddNot)\n-old\n+new\n\ngroups: 1 of 2 mutants killed (50%)\n"
    )
