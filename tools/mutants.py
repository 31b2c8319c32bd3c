"""``make mutants``: change the code in small ways and count how many of the changes the tests notice.

A mutant is the package with one operator, number or condition changed (by cosmic-ray). All mutants of a
package would take a day, so a seeded sample is tried: the same seed on the same code gives the same sample.
The mutants live in a copy of the checkout; the checkout itself is never changed.
"""

import argparse
import dataclasses
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
HOME = CHECKOUT / ".cache" / "mutants"
COSMIC_RAY = "cosmic-ray==8.7.0"  # brings aiohttp and SQLAlchemy, so it has an environment of its own


@dataclasses.dataclass(frozen=True)
class Suite:
    """The tests that have to notice a change of a package."""

    source: str
    tests: tuple[str, ...]


SUITES = {
    "groups": Suite("src/kohort/groups", ("tests/scenario/groups", "tests/unit/groups")),
    "log": Suite("src/kohort/log", ("tests/unit/log", "tests/property/log")),
    "membership": Suite(
        "src/kohort/client/membership", ("tests/unit/client/membership", "tests/scenario/client")
    ),
}

# Changes that no test can see: annotations (`int | None`), decorators, `==` for `is`.
UNSEEN = (
    "core/ReplaceBinaryOperator_BitOr_",
    "core/RemoveDecorator",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change that was tried."""

    module: str
    line: int
    change: str
    killed: bool
    diff: str


def prepare(copy: Path) -> Path:
    """Copy what git knows of the checkout, and return the cosmic-ray of its own environment."""
    tool = HOME / "venv" / "bin" / "cosmic-ray"
    if not tool.exists():
        print(f"installing {COSMIC_RAY}", flush=True)
        venv.create(HOME / "venv", with_pip=True, clear=True)
        pip = [HOME / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", COSMIC_RAY]
        subprocess.run([str(part) for part in pip], check=True)
    shutil.rmtree(copy, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, copy / name)
    return tool


def configure(copy: Path, suite: Suite, timeout: float) -> str:
    """Write the configuration; return the command that runs the tests of the copy."""
    pytest = f"{sys.executable} -m pytest -x -q -p no:randomly -p no:cacheprovider --no-header --tb=no"
    command = f"env PYTHONPATH=src {pytest} -m 'not soak and not interop' {' '.join(suite.tests)}"
    (copy / "mutants.toml").write_text(
        f'[cosmic-ray]\nmodule-path = "{suite.source}"\ntimeout = {timeout}\nexcluded-modules = []\n'
        f'test-command = "{command}"\n\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    return command


def is_decorator(copy: Path, module: str, line: int) -> bool:
    """Whether the place is in a decorator: `frozen=False` is no change of behaviour."""
    return (copy / module).read_text().splitlines()[line - 1].lstrip().startswith("@")


def keep_a_sample(copy: Path, session: Path, size: int, seed: int) -> tuple[int, int]:
    """Leave ``size`` mutants in the session, one for a place; return how many, of how many places."""
    places: dict[tuple[str, int, int], list[str]] = {}
    with closing(sqlite3.connect(session)) as database:
        for job, operator, *place in database.execute(
            "SELECT job_id, operator_name, module_path, start_pos_row, start_pos_col "
            "FROM mutation_specs ORDER BY 3, 4, 5, 2"
        ):
            if not operator.startswith(UNSEEN):
                places.setdefault((place[0], place[1], place[2]), []).append(job)
        for place in [place for place in places if is_decorator(copy, place[0], place[1])]:
            del places[place]
        dice = random.Random(seed)
        chosen = dice.sample(sorted(places), min(size, len(places)))
        kept = {dice.choice(places[place]) for place in chosen}
        everything = [job for (job,) in database.execute("SELECT job_id FROM work_items")]
        gone = [(job,) for job in everything if job not in kept]
        database.executemany("DELETE FROM mutation_specs WHERE job_id = ?", gone)
        database.executemany("DELETE FROM work_items WHERE job_id = ?", gone)
        database.commit()
    return len(kept), len(places)


def results(session: Path) -> Iterator[Mutant]:
    """What became of the mutants tried so far."""
    with closing(sqlite3.connect(session)) as database:
        rows = database.execute(
            "SELECT module_path, start_pos_row, operator_name, test_outcome, diff "
            "FROM mutation_specs JOIN work_results USING (job_id) ORDER BY module_path, start_pos_row"
        ).fetchall()
    for module, line, operator, outcome, diff in rows:
        yield Mutant(module, line, operator.removeprefix("core/"), outcome.lower() != "survived", diff or "")


def run(tool: Path, copy: Path, session: Path, planned: int) -> None:
    """Try every mutant of the session, with a line of progress every half a minute."""
    worker = subprocess.Popen(
        [str(tool), "exec", "mutants.toml", str(session)],
        cwd=copy,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shown = time.monotonic()
    try:
        while worker.poll() is None:
            time.sleep(1)
            if time.monotonic() - shown >= 30:
                shown = time.monotonic()
                tried = list(results(session))
                alive = sum(not mutant.killed for mutant in tried)
                print(f"  {len(tried)} of {planned} tried, {alive} survived", flush=True)
    finally:
        worker.terminate()
        worker.wait()


def examine(package: str, sample: int, seed: int, timeout: float) -> list[Mutant]:
    """Try a sample of the mutants of one package."""
    suite = SUITES[package]
    copy = HOME / package
    tool = prepare(copy)
    command = configure(copy, suite, timeout)
    print(f"{package}: the tests without a mutant", flush=True)
    if subprocess.run(command, shell=True, cwd=copy).returncode:
        raise SystemExit(f"{package}: its tests fail without a mutant; mend them first")
    session = copy / "mutants.sqlite"
    subprocess.run([str(tool), "init", "mutants.toml", str(session)], cwd=copy, check=True)
    kept, places = keep_a_sample(copy, session, sample, seed)
    print(f"{package}: {kept} mutants of {places} places, seed {seed}", flush=True)
    run(tool, copy, session, kept)
    tried = list(results(session))
    if len(tried) < kept:
        raise SystemExit(f"{package}: only {len(tried)} of {kept} mutants were tried; see {session}")
    return tried


def report(package: str, tried: Sequence[Mutant]) -> None:
    """Print the survivors with their change, then the rate."""
    for mutant in tried:
        if not mutant.killed:
            print(f"\nsurvived: {mutant.module}:{mutant.line} ({mutant.change})")
            print(
                "\n".join(
                    line
                    for line in mutant.diff.splitlines()
                    if line[:1] in "+-" and line[:3] not in ("+++", "---")
                )
            )
    killed = sum(mutant.killed for mutant in tried)
    print(
        f"\n{package}: {killed} of {len(tried)} mutants killed ({killed / max(1, len(tried)):.0%})",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "packages", nargs="*", default=list(SUITES), metavar="PACKAGE", help=", ".join(SUITES)
    )
    parser.add_argument("--sample", type=int, default=150, help="mutants for each package (default 150)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (default 1)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for the tests of one mutant")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results to FILE")
    options = parser.parse_args()
    if unknown := set(options.packages) - SUITES.keys():
        parser.error(f"unknown package {', '.join(sorted(unknown))}: choose from {', '.join(SUITES)}")
    found = {
        package: examine(package, options.sample, options.seed, options.timeout)
        for package in options.packages
    }
    for package, tried in found.items():
        report(package, tried)
    if options.json:
        options.json.write_text(
            json.dumps(
                {
                    package: [dataclasses.asdict(mutant) for mutant in tried]
                    for package, tried in found.items()
                }
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
