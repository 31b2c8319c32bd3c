"""``kohort groups why`` about groups of real consumers."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.conftest import Kohort
from tests.cli.group_members import Member, members
from tests.clients.waiting import eventually

from kohort.cli.groups.why import journal
from kohort.testing.broker import Broker

CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 2_000,
}
TOPIC = "orders"
GROUP = "billing"
QUICK = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 100}  # nobody is expelled by a busy machine

# A member in a process of its own, to be killed.
CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing", "client.id": "victim",
                     "session.timeout.ms": 1000, "heartbeat.interval.ms": 100, "log_level": 0})
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.1)
"""

KIP_848_CONSUMER = CONSUMER.replace(
    '"session.timeout.ms": 1000, "heartbeat.interval.ms": 100', '"group.protocol": "consumer"'
)


@pytest.fixture
def kohort() -> Iterator[Kohort]:
    """The command line on a broker of its own, whose groups do not wait for more members."""
    with Broker(configs=CONFIGS) as broker:
        kohort = Kohort(broker.bootstrap)
        kohort.ok("topics", "create", TOPIC, "-p", "4")
        yield kohort


def told(kohort: Kohort, *options: str) -> dict[str, Any]:
    result = kohort("groups", "why", GROUP, "--json", *options)
    found = json.loads(result.stdout) if result.exit_code == 0 else {"rebalances": []}
    assert isinstance(found, dict)
    return found


def stable_with(kohort: Kohort, *clients: str) -> None:
    """Wait until the last rebalance ended with these members."""

    def is_so() -> bool:
        story = told(kohort)
        if not story["rebalances"] or story["rebalances"][-1]["end"] != "stable":
            return False
        names = {one["member_id"]: one["client_id"] for one in story["people"]}
        return sorted(names[one] for one in story["rebalances"][-1]["members"]) == sorted(clients)

    eventually(f"a stable group of {clients}", is_so)


def client_of(story: dict[str, Any], member_id: str) -> str:
    return next(str(one["client_id"]) for one in story["people"] if one["member_id"] == member_id)


@pytest.mark.slow
def test_a_group_that_grew_and_shrank_is_told_to_its_end(kohort: Kohort) -> None:
    with members(kohort.bootstrap, GROUP, TOPIC, "anna", **QUICK):
        stable_with(kohort, "anna")
        ben = Member(kohort.bootstrap, GROUP, TOPIC, "ben", **QUICK)
        stable_with(kohort, "anna", "ben")
        ben.leave()
        stable_with(kohort, "anna")
    story = told(kohort)
    assert story["state"] == "Empty"
    first, grown, shrunk, empty = story["rebalances"]

    assert first["cause"]["kind"] == "MemberArrived"
    assert [(one["partition"], one["from"]) for one in first["moved"]] == [(n, None) for n in range(4)]

    assert client_of(story, grown["cause"]["member_id"]) == "ben"
    assert [client_of(story, one["member_id"]) for one in grown["joined"]] == ["ben", "anna"]
    assert client_of(story, grown["last_joined"]["member_id"]) == "anna"
    assert (grown["protocol"], grown["cooperative"], grown["generation"]) == ("range", False, 2)
    assert grown["total_ms"] == grown["preparing_ms"] + grown["completing_ms"]
    assert {one["lost"] for one in grown["without_owner"]} == {"eager"}
    assert (len(grown["moved"]), grown["stayed"], len(grown["without_owner"])) == (2, 2, 4)

    assert shrunk["cause"]["kind"] == "MemberLeft"
    assert {client_of(story, one["to"]) for one in shrunk["moved"]} == {"anna"}
    assert {one["lost"] for one in shrunk["without_owner"]} == {"eager", "gone"}

    assert (empty["end"], empty["members_removed"]) == ("empty", shrunk["members"])
    assert [one["partition"] for one in story["without_owner"]] == [0, 1, 2, 3]

    kohort.ok("groups", "delete", GROUP)
    text = kohort.ok("groups", "why", GROUP, "--last", "2")
    lines = text.splitlines()
    assert lines[0] == f"{GROUP} is gone: an administrator deleted the group"
    assert re.fullmatch(r"its last: 2 rebalances, oldest first, on \d{4}-\d\d-\d\d", lines[1])
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  ben-…[0-9a-f]{4} left", lines[3])
    assert re.fullmatch(
        r"  result      stable after \d+ ms: generation 3, range \(eager\), anna-…[0-9a-f]{4} leads",
        lines[4],
    )
    assert lines[-1].endswith("the group is gone: an administrator deleted the group")


@pytest.mark.slow
def test_a_killed_member_is_told_by_its_silence(kohort: Kohort) -> None:
    command = [sys.executable, "-c", CONSUMER, kohort.bootstrap]
    with members(kohort.bootstrap, GROUP, TOPIC, "anna", **QUICK), subprocess.Popen(command) as victim:
        stable_with(kohort, "anna", "victim")
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        stable_with(kohort, "anna")
        text = kohort.ok("groups", "why", GROUP, "-n", "1")
        last = told(kohort)["rebalances"][-1]
    assert last["cause"]["kind"] == "SessionExpired"
    assert last["cause"]["silent_ms"] >= 1_000
    silent = [one for one in last["without_owner"] if one["lost"] == "silent"]
    assert len(silent) == 2
    assert all(one["ms"] >= 1_000 for one in silent)
    assert re.search(
        r"^\S+  session of victim-…\w{4} expired: last heartbeat [\d,]+ ms ago, timeout", text, re.M
    )
    assert re.search(r"^  no owner    \S+ s, since victim-…\w{4} was last heard of: orders \d", text, re.M)
    assert "  advice      the process died, hung or was cut off" in text


@pytest.mark.slow
def test_a_cooperative_group_loses_only_what_moves(kohort: Kohort) -> None:
    settings = {**QUICK, "partition.assignment.strategy": "cooperative-sticky"}
    with members(kohort.bootstrap, GROUP, TOPIC, "anna", **settings):
        stable_with(kohort, "anna")
        with members(kohort.bootstrap, GROUP, TOPIC, "ben", **settings):
            eventually("two rounds", lambda: _moved_in_two_rounds(told(kohort)["rebalances"]))
            took, gave = told(kohort)["rebalances"][1:3]
    assert took["cooperative"]
    assert [one["to"] for one in took["moved"]] == [None, None]
    assert took["without_owner"] == []
    assert {one["lost"] for one in gave["without_owner"]} == {"revoked"}
    assert len(gave["without_owner"]) == 2


def _moved_in_two_rounds(rebalances: list[dict[str, Any]]) -> bool:
    return len(rebalances) >= 3 and rebalances[2]["end"] == "stable" and len(rebalances[2]["moved"]) == 2


@pytest.mark.slow
def test_a_consumer_group_is_told_epoch_by_epoch(kohort: Kohort) -> None:
    """KIP-848, members of librdkafka: one comes, one is killed, one leaves."""
    settings = {"group.protocol": "consumer"}
    command = [sys.executable, "-c", KIP_848_CONSUMER, kohort.bootstrap]
    with members(kohort.bootstrap, GROUP, TOPIC, "anna", **settings):
        stable_with(kohort, "anna")
        with subprocess.Popen(command) as victim:
            stable_with(kohort, "anna", "victim")
            victim.send_signal(signal.SIGKILL)
        stable_with(kohort, "anna")
        text = kohort.ok("groups", "why", GROUP)
    story = told(kohort)
    first, grown, shrunk, empty = story["rebalances"]
    assert {one["kind"] for one in story["rebalances"]} == {"consumer"}
    assert (first["cause"]["kind"], first["generation"], len(first["moved"])) == ("MemberArrived", 1, 4)
    (revoked,) = grown["revocations"]
    assert client_of(story, revoked["member_id"]) == "anna"
    assert [client_of(story, one) for one in revoked["waiting"]] == ["victim"]
    assert (len(grown["moved"]), grown["stayed"], len(grown["without_owner"])) == (2, 2, 2)
    assert {one["topic"] for one in grown["moved"]} == {TOPIC}
    assert shrunk["cause"]["kind"] == "SessionExpired"
    assert {(one["lost"], one["ms"] >= 2_000) for one in shrunk["without_owner"]} == {("silent", True)}
    assert (empty["end"], empty["cause"]["kind"]) == ("empty", "MemberLeft")
    assert re.search(r"^  result      stable after .+: epoch 3, uniform \(consumer\)$", text, re.M)
    assert re.search(r"^  gave up     \+.+ anna-…\S{4}: orders \d-\d, .+ after it was asked$", text, re.M)


@pytest.mark.slow
def test_the_journal_is_read_no_further_back_than_the_story_needs(
    kohort: Kohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    with members(kohort.bootstrap, GROUP, TOPIC, "anna", **QUICK):
        stable_with(kohort, "anna")
        for name in ("ben", "carl"):
            with members(kohort.bootstrap, GROUP, TOPIC, name, **QUICK):
                stable_with(kohort, "anna", name)
            stable_with(kohort, "anna")
    whole = told(kohort, "--last", "3")
    monkeypatch.setattr(journal, "_FIRST_WINDOW", 3)
    monkeypatch.setattr(journal, "_GROWTH", 1)
    in_pieces = told(kohort, "--last", "3")
    assert in_pieces["rebalances"] == whole["rebalances"]
    assert in_pieces["journal"]["first_at"] > whole["journal"]["first_at"]


def test_a_group_without_a_rebalance_says_so(kohort: Kohort) -> None:
    kohort.ok("groups", "reset-offsets", GROUP, "--topic", TOPIC, "--to-latest", "--execute")
    lines = kohort.ok("groups", "why", GROUP).splitlines()
    assert lines[0] == f"{GROUP}: Empty, 0 members"
    assert lines[1].startswith("no rebalance of it is in the journal")


def test_a_group_nobody_ever_heard_of_is_an_error_that_names_those_the_journal_knows(kohort: Kohort) -> None:
    kohort.ok("groups", "reset-offsets", GROUP, "--topic", TOPIC, "--to-latest", "--execute")
    kohort.ok("groups", "delete", GROUP)
    result = kohort("groups", "why", "biling")
    assert result.exit_code == 1
    assert result.stderr == "kohort: error: there is no group 'biling' (did you mean 'billing'?)\n"


def test_a_cluster_without_a_journal_says_what_is_possible_instead(kohort: Kohort) -> None:
    result = kohort("groups", "why", GROUP)
    assert result.exit_code == 1
    assert "keeps no journal of its groups: it has no topic __kohort_journal" in result.stderr
    assert f"in the log of its coordinator, broker 1 at {kohort.bootstrap}" in result.stderr
