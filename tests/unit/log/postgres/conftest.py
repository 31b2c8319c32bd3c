"""One PostgreSQL for each process of tests, one schema for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from kohort.log.postgres.connections import Database
from kohort.testing.postgres import EmbeddedPostgres

_numbers = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Database:
    """An empty place for a cluster."""
    return Database.parse(f"{postgres.url}?schema=test{next(_numbers)}")
