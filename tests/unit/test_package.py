"""What ``import kohort`` gives, and what it costs."""

import subprocess
import sys
from types import ModuleType

import pytest

import kohort
import kohort.client.consumer
import kohort.testing


@pytest.mark.parametrize("package", [kohort, kohort.client.consumer, kohort.testing])
def test_a_public_name_is_there(package: ModuleType) -> None:
    assert [getattr(package, name).__name__ for name in package.__all__] == package.__all__


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="Kafka"):
        kohort.Kafka  # noqa: B018 - asking is the test


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, kohort; print([m for m in sys.modules if m.startswith(('kohort.', 'asyncio', 'typer'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
