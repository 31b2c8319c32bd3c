"""Peers that guess passwords (security 3 and 8): what they learn, and how long they wait."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.broker.raw import Raw
from tests.broker.security.secured import Login, RunningServer, serving

from kohort.model.errors import ErrorCode
from kohort.security.scram import ScramMechanism

SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
    "connection.failed.authentication.delay.ms": "1",
}


@pytest.fixture
def running() -> Iterator[RunningServer]:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as server:
        yield server


@pytest.mark.parametrize("mechanism", ["PLAIN", *(one.value for one in ScramMechanism)])
def test_an_unknown_user_costs_the_broker_the_same_hashes_as_a_wrong_password(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """Security scenario 27. The work is counted: a time tells little on a machine that others use."""
    counted: list[tuple[object, ...]] = []

    def counting(function: Callable[..., bytes], *parts: int) -> Callable[..., bytes]:
        def count(*given: Any) -> bytes:  # noqa: ANN401 - what the function takes
            if threading.current_thread() is not threading.main_thread():  # which is the client's
                counted.append((function.__name__, *(given[part] for part in parts)))
            return function(*given)

        return count

    monkeypatch.setattr(ScramMechanism, "hmac", counting(ScramMechanism.hmac, 0))
    monkeypatch.setattr(ScramMechanism, "hash", counting(ScramMechanism.hash, 0))
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting(hashlib.pbkdf2_hmac, 0, 3))
    work = []
    for user in ("alice", "nobody"):
        with Raw(running.address("SASL_PLAINTEXT")) as raw:
            login = Login(raw)
            is_plain = mechanism == "PLAIN"
            reply = login.plain(user, "x") if is_plain else login.scram(ScramMechanism(mechanism), user, "x")
            assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        work.append(counted[:])
        counted.clear()
    known, unknown = work
    assert known
    assert unknown == known


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
