"""The pytest plugin: what a user's test gets from it."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.slow
def test_the_fixtures_give_a_broker_and_names_of_the_tests_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        names = set()

        def topics(bootstrap):
            return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics)

        def test_one(kohort):
            names.add(kohort.topic(partitions=2))
            names.add(kohort.group())
            assert names & topics(kohort.bootstrap)

        def test_other(kohort):
            names.add(kohort.topic(configs={"cleanup.policy": "compact"}))
            names.add(kohort.group())
            assert len(names) == 4

        def test_fresh(kohort_broker):
            assert topics(kohort_broker.bootstrap) == set()
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=3)


def test_the_plugin_is_light_to_import() -> None:
    """It is loaded by every test run of everybody who has Kohort installed."""
    script = (
        "import sys, kohort.testing.plugin; print([m for m in sys.modules if m.startswith('kohort.broker')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
