"""Peers that guess passwords (security 3 and 8): what they learn, and how long they wait."""

import asyncio
import hashlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.broker.raw import Raw, Reply
from tests.broker.security.secured import USERS, Login, RunningServer, serving

from kohort.model.errors import ErrorCode
from kohort.security.scram import ScramClient, ScramMechanism, salted_password

SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
    "connection.failed.authentication.delay.ms": "1",
}
MECHANISMS = ["PLAIN", *(one.value for one in ScramMechanism)]


@pytest.fixture
def running() -> Iterator[RunningServer]:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as server:
        yield server


class Work:
    """Which hashes the broker computes: a time tells little on a machine that others use."""

    def __init__(self, running: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._running = running
        self._counted: list[tuple[object, ...]] = []
        monkeypatch.setattr(ScramMechanism, "hmac", self._counting(ScramMechanism.hmac, 0))
        monkeypatch.setattr(ScramMechanism, "hash", self._counting(ScramMechanism.hash, 0))
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", self._counting(hashlib.pbkdf2_hmac, 0, 3))

    def _counting(self, function: Callable[..., bytes], *parts: int) -> Callable[..., bytes]:
        def count(*given: Any) -> bytes:  # noqa: ANN401 - what the function takes
            if threading.current_thread() is not threading.main_thread():  # which is the client's
                self._counted.append((function.__name__, *(given[part] for part in parts)))
            return function(*given)

        return count

    def of(self, user: str, mechanism: str) -> list[tuple[object, ...]]:
        """Of a log-in with a wrong password."""
        self._counted.clear()
        with Raw(self._running.address("SASL_PLAINTEXT")) as raw:
            assert fail(raw, user, mechanism).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert self._counted
        return self._counted[:]


def fail(raw: Raw, user: str, mechanism: str) -> Reply:
    login = Login(raw)
    return (
        login.plain(user, "x") if mechanism == "PLAIN" else login.scram(ScramMechanism(mechanism), user, "x")
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_unknown_user_costs_the_broker_the_same_hashes_as_a_wrong_password(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """Security scenario 27. The work is counted, here; ``test_no_time_tells_who_is_a_user`` takes times."""
    work = Work(running, monkeypatch)
    assert work.of("nobody", mechanism) == work.of("alice", mechanism)


@pytest.mark.parametrize("kept", list(ScramMechanism))
def test_an_unknown_user_of_plain_costs_what_most_users_cost(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch, kept: ScramMechanism
) -> None:
    """Kafka's tools make credentials of one mechanism, whose hash takes half as long as that of the other."""
    catalog = running.server.broker.catalog
    others = [key for key in catalog.credentials if key[1] is not kept]
    running.loop.submit(catalog.change_credentials(others, {})).result()
    work = Work(running, monkeypatch)
    assert work.of("nobody", "PLAIN") == work.of("alice", "PLAIN")


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_time_tells_who_is_a_user(running: RunningServer, mechanism: str) -> None:
    """Security scenario 27. 2,000 tries each, by turns: what differs is less than what the tries of one user
    differ.
    """
    times: dict[str, list[float]] = {"alice": [], "nobody": []}
    failed = running.server.broker.endpoints[0].sasl.failed  # type: ignore[union-attr]
    for _ in range(2_000):
        for user, taken in times.items():
            failed._failures.clear()  # the delay would grow
            with Raw(running.address("SASL_PLAINTEXT")) as raw:
                began = time.perf_counter()
                fail(raw, user, mechanism)
                taken.append(time.perf_counter() - began)
    known, unknown = (statistics.quantiles(taken, n=4) for taken in times.values())
    print(f"{mechanism}: quartiles in ms, known {_ms(known)}, unknown {_ms(unknown)}")
    spread = min(known[2] - known[0], unknown[2] - unknown[0])
    assert abs(known[1] - unknown[1]) < spread


def _ms(quartiles: list[float]) -> str:
    return " ".join(f"{1_000 * one:.3f}" for one in quartiles)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_messages_that_were_overheard_open_nothing_a_second_time(
    running: RunningServer, mechanism: ScramMechanism
) -> None:
    address = running.address("SASL_PLAINTEXT")
    client = ScramClient(mechanism, "alice", "clientnonce")
    with Raw(address) as raw:
        login = Login(raw)
        login.handshake(mechanism.value)
        client.challenge(login.token(client.first()).auth_bytes)
        final = client.final(salted_password(mechanism, USERS["alice"], client.salt, client.iterations))
        assert login.token(final).error_code == 0
    with Raw(address) as raw:
        login = Login(raw)
        login.handshake(mechanism.value)
        assert login.token(client.first()).error_code == 0
        assert login.token(final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert raw.is_closed()


def test_the_sixth_wrong_password_waits_longer_and_another_address_does_not(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security scenario 61. Six times from one address, then once from another."""
    delays: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay: float) -> None:
        delays.append(delay)
        await sleep(0)

    monkeypatch.setattr("kohort.broker.gate.asyncio.sleep", noted)
    for host in ("127.0.0.1",) * 6 + ("127.0.0.2",):
        with Raw(running.address("SASL_PLAINTEXT"), source=host) as raw:
            reply = Login(raw).plain("alice", "wrong")
            assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert delays == [0.001] * 5 + [0.002, 0.001]
