"""Bytes from peers that have not logged in: whatever they are, the broker lives and tells them nothing."""

import os
import random

import pytest
from tests.broker.asking import create, metadata
from tests.broker.raw import Raw, framed
from tests.broker.security.secured import USERS, Login, serving

from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest

SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
    "connection.failed.authentication.delay.ms": "0",
}
TOKENS = (b"\0alice\0wrong", b"n,,n=alice,r=nonce", b"c=biws,r=nonce,p=AAAA", b"", b"\0")
ROUNDS = int(os.environ.get("KOHORT_FUZZ_PEERS", "1000"))  # conversations, of two and a half frames each
FRAMES_OF_ONE = range(1, 5)


def mutated(content: bytes, dice: random.Random) -> bytes:
    """The same with some bytes changed, cut or repeated."""
    changed = bytearray(content)
    for _ in range(dice.randrange(4)):
        place = dice.randrange(len(changed) + 1)
        match dice.randrange(3):
            case 0 if place < len(changed):
                changed[place] = dice.randrange(256)
            case 1:
                del changed[place : place + dice.randrange(8)]
            case _:
                changed[place:place] = dice.randbytes(dice.randrange(8))
    return bytes(changed)


def conversation(raw: Raw, dice: random.Random) -> tuple[bytes, int]:
    """What a peer sends, and how many frames that is."""
    frames = []
    for _ in range(dice.choice(FRAMES_OF_ONE)):
        token = mutated(dice.choice(TOKENS), dice)
        request, version = dice.choice(
            [
                (SaslHandshakeRequest(mechanism=dice.choice(["PLAIN", "SCRAM-SHA-256"])), dice.randrange(2)),
                (SaslAuthenticateRequest(auth_bytes=token), dice.randrange(3)),
                (MetadataRequest(topics=None), 12),
            ]
        )
        frame = raw.frame(request, version)[4:]
        frames.append(framed(dice.choice([frame, mutated(frame, dice), token, dice.randbytes(20)])))
    sent = b"".join(frames)
    return mutated(sent, dice) if dice.random() < 0.2 else sent, len(frames)


@pytest.mark.slow
def test_no_bytes_before_the_log_in_get_data_or_end_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    """Security scenario 59. See security 9."""
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as running:
        address = running.address("SASL_PLAINTEXT")
        with Raw(address) as admin:
            Login(admin).plain("admin", USERS["admin"])
            create(admin, "hidden-topic")
            replied = frames = 0
            for number in range(ROUNDS):
                dice = random.Random(number)
                with Raw(address) as peer:
                    sent, count = conversation(peer, dice)
                    frames += count
                    peer.send_bytes(sent)
                    peer.end_sending()
                    answered = b""
                    try:
                        while piece := peer.receive_once():
                            answered += piece
                    except ConnectionResetError:
                        pass  # it closed with bytes of ours unread
                    assert b"hidden-topic" not in answered, number
                    replied += bool(answered)
            assert frames > ROUNDS * 2.48  # 401,000 conversations are a million frames
            assert replied > ROUNDS / 50  # handshakes are answered: the conversations get somewhere
            assert metadata(admin, "hidden-topic").topics[0].error_code == 0
    assert "ran into a bug" not in caplog.text
