"""Kohort answers raw requests as Kafka does, but for the differences that are listed with their reasons.

Two halves meet in ``recorded/``: real Kafka must still answer what is recorded, and Kohort is compared with
the recording, which needs no JVM.
"""

import pytest
from tests.interop.conftest import StartTarget
from tests.interop.scripts.catalogue import SCRIPTS
from tests.interop.scripts.compare import (
    Difference,
    Explanation,
    differences,
    load_explanations,
    outdated,
    run_script,
    unexplained,
)
from tests.interop.scripts.recorded import FOLDER, as_stored, load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def explanations() -> list[Explanation]:
    return load_explanations()


def listing(found: list[Difference]) -> str:
    return "\n".join(map(str, found))


@pytest.mark.interop
@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_still_answers_what_is_recorded(name: str, start_target: StartTarget) -> None:
    answers = as_stored(run_script(SCRIPTS[name], start_target("kafka").address))
    assert answers == load(name), listing(differences(name, load(name), answers))


@pytest.mark.parametrize("name", SCRIPTS)
def test_kohort_answers_as_kafka_does(
    name: str, start_target: StartTarget, explanations: list[Explanation]
) -> None:
    answers = as_stored(run_script(SCRIPTS[name], start_target("kohort").address))
    found = differences(name, load(name), answers)
    strange = unexplained(found, explanations)
    assert not strange, f"{len(strange)} unexplained differences:\n{listing(strange)}"
    assert not outdated(name, found, explanations), "explained differences that no longer occur"


def test_every_explanation_names_a_script(explanations: list[Explanation]) -> None:
    assert [entry for entry in explanations if entry.script not in SCRIPTS or not entry.reason] == []


def test_every_recording_has_its_script() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(SCRIPTS)
