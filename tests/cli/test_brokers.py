"""``kohort cluster`` and ``kohort apis`` against a real broker."""

import json

from tests.cli.conftest import Kohort

from kohort.wire.apis import ApiKey


def test_the_cluster_is_shown_with_its_brokers(kohort: Kohort) -> None:
    lines = kohort.ok("cluster").splitlines()
    assert lines[0].startswith("cluster ")
    assert lines[-1].split()[:2] == ["1", kohort.bootstrap]


def test_the_cluster_in_json_has_stable_keys(kohort: Kohort) -> None:
    found = json.loads(kohort.ok("cluster", "--json"))
    assert found.keys() == {"cluster_id", "controller_id", "brokers"}
    assert len(found["cluster_id"]) == 22
    (broker,) = found["brokers"]
    assert f"{broker['host']}:{broker['port']}" == kohort.bootstrap
    (directory,) = broker["log_dirs"]
    assert directory.keys() == {"path", "replicas", "size", "usable_bytes"}


def test_the_apis_in_json_are_what_the_broker_advertises(kohort: Kohort) -> None:
    found = json.loads(kohort.ok("apis", "--node", "1", "--json"))
    assert found["address"] == kohort.bootstrap
    keys = [api["key"] for api in found["apis"]]
    assert keys == sorted(keys)
    assert ApiKey.FETCH in keys
    group_version = {"name": "group.version", "min_version": 0, "max_version": 1, "level": 1}
    assert group_version in found["features"]
    assert found["apis"][0] == {"key": 0, "name": "Produce", "min_version": 0, "max_version": 13}


def test_a_broker_that_is_not_there_is_an_error(kohort: Kohort) -> None:
    result = kohort("apis", "--node", "9")
    assert result.exit_code == 1
    assert result.stderr == "kohort: error: there is no broker 9 (there are 1)\n"
