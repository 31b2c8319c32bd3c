"""What a peer sees at the doors of a secured broker: scripts that Kafka and Kohort answer alike (security 9).

Each takes a ``Door`` and returns what it saw, without what differs between any two brokers.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.broker.asking import metadata
from tests.broker.raw import Raw, framed
from tests.broker.security.issuer import claims, unsecured
from tests.broker.security.secured import Login

from kohort.broker.handlers import SERVED
from kohort.codec.compiled import encode
from kohort.codec.schema import Message
from kohort.security.scram import ScramClient, ScramMechanism, salted_password
from kohort.wire.apis import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest

VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
SHA_256 = ScramMechanism.SHA_256
CLOSED = "closed"
Seen = list[object]


class Door(NamedTuple):
    """The SASL_PLAINTEXT listener of a broker, and its users ``admin`` (a super user) and ``alice``."""

    address: str
    passwords: dict[str, str]

    @contextmanager
    def user(self, name: str) -> Iterator[Raw]:
        with Raw(self.address) as raw:
            assert Login(raw).plain(name, self.passwords[name]).error_code == 0
            yield raw

    def knock(self) -> Raw:
        return Raw(self.address)


def newest(request: Message) -> int:
    assert request.api_key is not None
    return next(api.newest for api in SERVED if api.key == request.api_key)


def said(raw: Raw, request: Message, version: int | None = None) -> Any:  # noqa: ANN401 - a reply
    """The reply, or that there was none."""
    try:
        return raw.send(request, newest(request) if version is None else version)
    except ConnectionError:
        return CLOSED


def answer(reply: Any) -> object:  # noqa: ANN401 - a reply
    """Code and text of a log-in's reply."""
    return reply if reply == CLOSED else (reply.error_code, reply.error_message)


# Log-ins


def before_the_log_in(door: Door) -> Seen:
    """Security scenarios 18, 19, 20, 21, 22. Requests that come too early, and in the wrong order.

    Security traps 2, 3. Some get no reply, others get one before the end.
    """
    seen: Seen = []
    with door.knock() as raw:
        began = time.monotonic()
        seen += [said(raw, MetadataRequest(topics=[]), 12), time.monotonic() - began >= 0.1]
    with door.knock() as raw:
        seen += [said(raw, VERSIONS, 4).error_code]
        seen += [said(raw, VERSIONS, 3)]
    with door.knock() as raw:
        raw.send_bytes(raw.frame_of(ApiKey.API_VERSIONS, 99, encode(VERSIONS, 3)))
        seen += [raw.take_as(0).error_code, said(raw, VERSIONS, 3).error_code]
        seen += [Login(raw).handshake("PLAIN").error_code]
    for mechanism in ("plain", "GSSAPI", "PLAIN "):
        with door.knock() as raw:
            reply = Login(raw).handshake(mechanism)
            seen += [reply.error_code, sorted(reply.mechanisms), raw.is_closed()]
    with door.knock() as raw:
        login = Login(raw)
        seen += [login.handshake("PLAIN").error_code]
        seen += [login.handshake("PLAIN").error_code, raw.is_closed()]
    with door.knock() as raw:
        Login(raw).handshake("PLAIN")
        seen += [said(raw, VERSIONS, 3).error_code, raw.is_closed()]
    return seen


def plain_tokens(door: Door) -> Seen:
    """Security scenario 24. What PLAIN refuses, in which order and words."""
    good = door.passwords["alice"].encode()
    tokens = [
        b"", b"\0", b"alice\0x", b"\0alice\0x\0y", b"\0\0x", b"\0alice\0", b"\0\0", b"\0alice\0wrong",
        b"\0stranger\0wrong", b"bob\0alice\0wrong", b"bob\0alice\0" + good, b"alice\0alice\0" + good,
    ]  # fmt: skip
    seen: Seen = []
    for token in tokens:
        with door.knock() as raw:
            login = Login(raw)
            login.handshake("PLAIN")
            seen += [answer(login.token(token))]
    return seen


def raw_tokens(door: Door) -> Seen:
    """Security scenario 23. Tokens without a header after a handshake of version 0."""
    seen: Seen = []
    for password in (door.passwords["alice"], "wrong"):
        with door.knock() as raw:
            Login(raw).handshake("PLAIN", version=0)
            raw.send_bytes(framed(f"\0alice\0{password}".encode()))
            try:
                seen += [raw._exactly(4), bool(metadata(raw).brokers)]
            except ConnectionError:
                seen += [CLOSED]
    return seen


def scram_messages(door: Door) -> Seen:
    """Security scenario 26. Messages of SCRAM that are good, foreign or broken. Both use the general text."""
    firsts = [
        b"n,,n=alice,r=x", b"n,a=alice,n=alice,r=x", b"n,a=bob,n=alice,r=x", b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x", b"n,,n=al=2Cice,r=x", b"n,,n=al=2Xice,r=x", b"n,,n=alice", b"",
        b"n,,n=alice,r=x,tokenauth=false", b"n,,m=1,n=alice,r=x",
    ]  # fmt: skip
    seen: Seen = []
    for first in firsts:
        with door.knock() as raw:
            login = Login(raw)
            login.handshake(SHA_256.value)
            reply = said(raw, SaslAuthenticateRequest(auth_bytes=first), 2)
            # Kafka refuses a user who does not exist here, Kohort at the proof (security 3).
            is_unknown = b"al=2Cice" in first
            seen += ["unknown user" if is_unknown else answer(reply)]
    # A proof of another length or an empty message ends Kafka's connection by an exception: not compared.
    finals: dict[str, Callable[[bytes], bytes]] = {
        "good": lambda final: final,
        "no proof": lambda final: final.partition(b",p=")[0],
        "other proof": lambda final: final.partition(b",p=")[0] + b",p=" + b"A" * 43 + b"=",
        "foreign nonce": lambda final: final.replace(b"r=clientnonce", b"r=c").replace(b",p=", b"x,p="),
    }
    for change in finals.values():
        with door.knock() as raw:
            login = Login(raw)
            login.handshake(SHA_256.value)
            client = ScramClient(SHA_256, "alice", "clientnonce")
            client.challenge(login.token(client.first()).auth_bytes)
            salted = salted_password(SHA_256, door.passwords["alice"], client.salt, client.iterations)
            final = change(client.final(salted))
            seen += [answer(said(raw, SaslAuthenticateRequest(auth_bytes=final), 2))]
    return seen


def unsecured_tokens(door: Door) -> Seen:
    """Security scenario 38. Tokens without a signature, where they are switched on."""
    now = time.time()
    tokens = {
        "good": unsecured(claims(now)),
        "expired": unsecured(claims(now - 7_200)),
        "no user": unsecured(claims(now, sub=None)),
        "no end": unsecured(claims(now, exp=None)),
        "early": unsecured(claims(now, nbf=now + 600)),
        "no JSON": "eA.eA.",
    }
    seen: Seen = []
    for token in tokens.values():
        with door.knock() as raw:
            login = Login(raw)
            login.handshake("OAUTHBEARER")
            reply = login.token(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            seen += [(reply.error_code, reply.auth_bytes)]
            if reply.auth_bytes:
                seen += [answer(login.token(b"\x01")), raw.is_closed()]
    with door.knock() as raw:
        login = Login(raw)
        login.handshake("OAUTHBEARER")
        seen += [answer(login.token(f"n,a=bob,\x01auth=Bearer {tokens['good']}\x01\x01".encode()))]
    return seen


def sessions(door: Door) -> Seen:
    """Security scenarios 39, 40. Sessions end, are renewed, and belong to one user and mechanism."""
    seen: Seen = []
    with door.user("alice") as ended, door.user("alice") as renewed, door.user("alice") as other:
        again = Login(other)
        seen += [answer(again.plain("admin", door.passwords["admin"])), other.is_closed()]
        while said(ended, MetadataRequest(topics=[]), 12) != CLOSED:
            continue  # until the session ends: the broker's clock is not ours to move
        reply = Login(renewed).plain("alice", door.passwords["alice"])
        seen += [reply.error_code, reply.session_lifetime_ms, Login(renewed).handshake("PLAIN").error_code]
        seen += [bool(metadata(renewed).brokers)]
    with door.user("alice") as raw:
        seen += [Login(raw).handshake(SHA_256.value).error_code]
        seen += [said(raw, SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2)]
    return seen
