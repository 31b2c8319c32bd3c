"""Groups whose story is told."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.unit.story.journal import DELAY, Journal, assignment  # noqa: E402 (needs the path above)


@pytest.fixture
def journal() -> Journal:
    """A stable group: ``a`` leads and has the partitions 0 and 1, ``b`` has 2 and 3."""
    started = Journal()
    started.start()
    return started


@pytest.fixture
def static() -> Journal:
    """As ``journal``, but ``b`` is the instance ``i``."""
    started = Journal()
    started.do(lambda: started.scenario.join("a"), lambda: started.scenario.join("b", instance="i"))
    started.sleep(3 * DELAY)
    started.assign("a", {"a": assignment(0, 1), "b": assignment(2, 3)}, "b")
    return started
