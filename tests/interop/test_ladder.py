"""The conformance ladder, step by step, for every client: connect, administrate, produce, fetch."""

from collections.abc import Callable

import pytest
from tests.interop.peers import Client, Event, PeerError, run_steps
from tests.interop.scripts.exchange import Exchange
from tests.interop.scripts.setting import wait_until_gone
from tests.interop.targets import Target

pytestmark = [pytest.mark.interop, pytest.mark.slow]

STEPS = "connect,create,list,describe,configs,produce,fetch,offsets,truncate,grow,delete"
PER_CODEC = 3


class Climb:
    """All events of one client on one broker."""

    def __init__(self, client: Client, topic: str, events: list[Event]) -> None:
        self.client = client
        self.topic = topic
        self._events = events

    def named(self, event: str) -> list[Event]:
        return [each for each in self._events if each["event"] == event]

    def one(self, event: str) -> Event:
        (only,) = self.named(event)
        return only


Climbs = dict[tuple[str, str], Climb | PeerError]


@pytest.fixture(scope="session")
def climbs() -> Climbs:
    """One run for each client and broker serves all tests of this file: a JVM start costs a second."""
    return {}


def run_climb(client: Client, target: Target, topic: str) -> Climb | PeerError:
    """All steps of one client; the error if one failed."""
    options: dict[str, object] = {"topic": topic, "codecs": ",".join(client.codecs), "group": topic}
    options["records"] = PER_CODEC * len(client.codecs)
    try:
        return Climb(client, topic, run_steps(client, target.bootstrap, STEPS, **options))
    except PeerError as error:
        return error


@pytest.fixture
def climb(client: Client, target: Target, climbs: Climbs, fresh_name: Callable[[str], str]) -> Climb:
    key = (client.name, target.name)
    if key not in climbs:
        climbs[key] = run_climb(client, target, fresh_name(f"ladder-{client}"))
    result = climbs[key]
    if isinstance(result, PeerError):
        raise result
    return result


def test_a_client_connects_and_learns_who_the_brokers_are(climb: Climb) -> None:
    connected = climb.one("connected")
    assert len(connected["brokers"]) == 1
    assert connected["controller"] in connected["brokers"]


def test_a_created_topic_is_listed_and_described(climb: Climb) -> None:
    assert climb.one("created")["partitions"] == 3
    assert climb.topic in climb.one("topics")["names"]
    assert climb.one("described")["partitions"] == 3


def test_a_topic_is_not_created_twice(climb: Climb) -> None:
    assert "Exists" in climb.one("refused")["error"]


def test_a_topic_config_is_read_and_altered(climb: Climb) -> None:
    assert [each["value"] for each in climb.named("config")] == ["60000000", "70000000"]


def test_records_of_every_codec_get_consecutive_offsets(climb: Climb) -> None:
    produced = climb.named("produced")
    assert [each["codec"] for each in produced] == list(climb.client.codecs)
    offsets = [offset for each in produced for offset in each["offsets"]]
    assert offsets == list(range(PER_CODEC * len(climb.client.codecs)))


def test_what_was_produced_is_fetched_in_order_with_keys_and_headers(climb: Climb) -> None:
    wanted = [
        (f"{codec}-key", f"{codec}-{i}", codec) for codec in climb.client.codecs for i in range(PER_CODEC)
    ]
    records = climb.named("record")
    assert [(each["key"], each["value"], each["header"]) for each in records] == wanted
    assert [each["offset"] for each in records] == list(range(len(wanted)))


def test_the_ends_of_the_log_are_told(climb: Climb) -> None:
    offsets = climb.one("offsets")
    count = PER_CODEC * len(climb.client.codecs)
    assert (offsets["earliest"], offsets["latest"]) == (0, count)
    if "largest" in offsets:  # any record of the last codec may carry the newest millisecond
        assert offsets["largest"] in range(count - PER_CODEC, count)


def test_deleted_records_move_the_start_of_the_log(climb: Climb) -> None:
    assert climb.one("truncated")["low"] == 1


def test_a_topic_grows(climb: Climb) -> None:
    assert climb.one("grown")["partitions"] == 4


def test_a_deleted_topic_is_gone(climb: Climb, target: Target) -> None:
    assert climb.one("deleted")["topic"] == climb.topic
    x = Exchange(target.address)
    try:
        wait_until_gone(x, climb.topic)
    finally:
        x.close()
