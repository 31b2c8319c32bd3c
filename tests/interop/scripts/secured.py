"""What a peer sees at the doors of a secured broker: scripts that Kafka and Kohort answer alike (security 9).

Each takes a ``Door`` and returns what it saw, without what differs between any two brokers.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from tests.broker.asking import create, metadata
from tests.broker.exemplars import exemplar, versions
from tests.broker.raw import Raw, framed
from tests.broker.security.issuer import claims, unsecured
from tests.broker.security.secured import Login

from kohort.broker.access import free
from kohort.broker.authorization import RULES
from kohort.broker.handlers import SERVED
from kohort.codec.schema import Message, Struct
from kohort.security.acls import Operation, PatternType, Permission, ResourceType
from kohort.security.scram import ScramClient, ScramMechanism, salted_password
from kohort.wire.apis import ApiKey
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
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
    """18, 19, 20, 21, 22: requests that come too early, and in the wrong order."""
    seen: Seen = []
    with door.knock() as raw:
        began = time.monotonic()
        seen += [said(raw, MetadataRequest(topics=[]), 12), time.monotonic() - began >= 0.1]
    with door.knock() as raw:
        seen += [said(raw, VERSIONS, 4).error_code]
        seen += [said(raw, VERSIONS, 3)]
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
    """24: what PLAIN refuses, in which order and words."""
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
    """23: tokens without a header after a handshake of version 0."""
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
    """26: messages of SCRAM that are good, foreign or broken. Both brokers use the general text."""
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
    """38: tokens without a signature, where they are switched on."""
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
    """39, 40: sessions of two seconds end, are renewed, and belong to one user and mechanism."""
    seen: Seen = []
    with door.user("alice") as ended, door.user("alice") as renewed, door.user("alice") as other:
        again = Login(other)
        seen += [answer(again.plain("admin", door.passwords["admin"])), other.is_closed()]
        time.sleep(3)  # the session itself: the broker's clock is not ours to move
        seen += [said(ended, MetadataRequest(topics=[]), 12)]
        reply = Login(renewed).plain("alice", door.passwords["alice"])
        seen += [reply.error_code, reply.session_lifetime_ms, Login(renewed).handshake("PLAIN").error_code]
        seen += [bool(metadata(renewed).brokers)]
    with door.user("alice") as raw:
        seen += [Login(raw).handshake(SHA_256.value).error_code]
        seen += [said(raw, SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2)]
    return seen


# Users


def users(door: Door) -> Seen:
    """30, 31: credentials that can be, and those that cannot."""

    def upsert(name: str, mechanism: int = 1, iterations: int = 4_096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"s" * 16, salted_password=b"p" * 32
        )

    requests = [
        AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        for deletions, upsertions in (
            ([], [upsert("o1"), upsert("o2", iterations=16_384)]),
            ([], [upsert("o3"), upsert("o3", 2), upsert("o4")]),
            ([], [upsert("")]),
            ([], [upsert("o5", 0), upsert("o6", 3)]),
            ([], [upsert("o7", iterations=4_095), upsert("o8", iterations=16_385)]),
            ([ScramCredentialDeletion(name="unknown", mechanism=1)], []),
            ([ScramCredentialDeletion(name="o1", mechanism=1)], [upsert("o1", 1)]),
            ([ScramCredentialDeletion(name="o2", mechanism=2)], []),
        )
    ]
    asked = [["o1"], ["o2", "o4"], ["o1", "o1"], ["unknown"]]
    seen: Seen = []
    with door.user("admin") as admin:
        for request in requests:
            results = said(admin, request).results
            seen += [sorted((one.user, one.error_code) for one in results)]
        while not {"o1", "o2", "o4"} <= {one.user for one in _credentials(admin, None)}:
            continue  # the broker learns of them from its controller
        for names in asked:
            wanted = [UserName(name=name) for name in names]
            found = said(admin, DescribeUserScramCredentialsRequest(users=wanted))
            seen += [found.error_code]
            seen += sorted(
                (
                    one.user,
                    one.error_code,
                    [(each.mechanism, each.iterations) for each in one.credential_infos],
                )
                for one in found.results
            )
        everybody: tuple[list[UserName] | None, ...] = (None, [])
        for asked_for in everybody:
            found = _credentials(admin, asked_for)
            seen += [sorted(one.user for one in found if one.user.startswith("o"))]
    return seen


def _credentials(admin: Raw, users: list[UserName] | None) -> list[Any]:
    found: list[Any] = said(admin, DescribeUserScramCredentialsRequest(users=users)).results
    return found


# Rules


def rule(
    kind: int = ResourceType.TOPIC,
    name: str = "t",
    pattern: int = PatternType.LITERAL,
    *,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=kind, resource_name=name, resource_pattern_type=pattern, principal=principal, host=host,
        operation=operation, permission_type=permission,
    )  # fmt: skip


def store(door: Door, *rules: AclCreation) -> list[int]:
    with door.user("admin") as admin:
        codes = [one.error_code for one in said(admin, CreateAclsRequest(creations=list(rules))).results]
        wanted = {_entry(one) for one, code in zip(rules, codes, strict=True) if code == 0}
        while not wanted <= _stored(admin):
            continue  # the authorizer learns of them from the controller
    return codes


def _entry(one: AclCreation) -> tuple[object, ...]:
    return (
        one.resource_type, one.resource_name, one.resource_pattern_type, one.principal, one.host,
        one.operation, one.permission_type,
    )  # fmt: skip


def _stored(admin: Raw, asked: DescribeAclsRequest | None = None) -> set[tuple[object, ...]]:
    everything = DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    found = said(admin, asked or everything)
    return {
        (at.resource_type, at.resource_name, at.pattern_type, one.principal, one.host, one.operation,
         one.permission_type)
        for at in found.resources
        for one in at.acls
    }  # fmt: skip


def forget(door: Door) -> None:
    """Take all rules away."""
    everything = DeleteAclsFilter(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    with door.user("admin") as admin:
        said(admin, DeleteAclsRequest(filters=[everything]))
        while _stored(admin):
            continue


def rules_that_cannot_be(door: Door) -> Seen:
    """46: what CreateAcls refuses. Kohort alone checks principals and hosts (differences)."""
    kinds = ResourceType
    tried = [
        rule(kinds.CLUSTER, "other"), rule(kinds.CLUSTER, "kafka-cluster"), rule(name=""),
        rule(1), rule(99), rule(pattern=1), rule(pattern=2), rule(pattern=99), rule(operation=1),
        rule(operation=99), rule(permission=1), rule(permission=99), rule(), rule(), rule(kinds.USER, "u"),
        rule(kinds.TRANSACTIONAL_ID, "x", operation=Operation.READ), rule(kinds.DELEGATION_TOKEN, "d"),
        rule(kinds.CLUSTER, "kafka-cluster", PatternType.PREFIXED),
    ]  # fmt: skip
    try:
        # Some of them fail inside Kafka 4.2 with UNKNOWN_SERVER_ERROR (-1); INVALID_REQUEST (42) is meant.
        seen: Seen = [42 if store(door, one) in ([42], [-1]) else 0 for one in tried]
        for unknown in (rule(0), rule(pattern=0), rule(operation=0), rule(permission=0)):
            with door.user("admin") as admin:
                seen += [said(admin, CreateAclsRequest(creations=[unknown]))]
        return seen
    finally:
        forget(door)


NAMES = ("*", "a", "ab", "abc", "b", "kafka-cluster")


def _random_rules(dice: Random, count: int) -> list[AclCreation]:
    return [
        rule(
            dice.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)),
            dice.choice(NAMES),
            dice.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            principal=dice.choice(("User:alice", "User:alice", "User:bob", "User:*")),
            host=dice.choice(("*", "*", "127.0.0.1", "10.0.0.1")),
            operation=dice.choice((2, 3, 4, 5, 6, 7, 8, 10, 11)),
            permission=dice.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
        for _ in range(count)
    ]


def made(door: Door, name: str) -> bytes:
    """The id of a topic that may be there already."""
    with door.user("admin") as admin:
        (found,) = metadata(admin, name).topics
        if found.error_code:
            create(admin, name, partitions=2)
        while found.error_code or len(found.partitions) < 2:
            (found,) = metadata(admin, name).topics
        topic_id: bytes = found.topic_id
        return topic_id


def verdicts(door: Door) -> Seen:
    """44: random rules, asked through the bits of Metadata."""
    seen: Seen = []
    dice = Random(44)
    topics = [MetadataRequestTopic(name=name) for name in ("a", "ab", "abc", "abcd", "b", "ba", "c")]
    asked = MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    for topic in topics[:4]:
        made(door, topic.name or "")
    for _ in range(12):
        store(door, *_random_rules(dice, 12))
        with door.user("alice") as raw:
            found = said(raw, asked, 12).topics
            seen += [sorted((one.name, one.error_code, one.topic_authorized_operations) for one in found)]
        forget(door)
    return seen


def filters(door: Door) -> Seen:
    """45: which rules a filter finds."""
    dice = Random(45)
    store(door, *_random_rules(dice, 60))
    seen: Seen = []
    with door.user("admin") as admin:
        for _ in range(120):
            asked = DescribeAclsRequest(
                resource_type_filter=dice.choice((1, 2, 3)),
                resource_name_filter=dice.choice((None, *NAMES, "abcd")),
                pattern_type_filter=dice.choice((1, 2, 3, 4)),
                principal_filter=dice.choice((None, None, "User:alice", "User:*")),
                host_filter=dice.choice((None, None, "*", "127.0.0.1")),
                operation=dice.choice((1, 1, 2, 3)),
                permission_type=dice.choice((1, 1, 2, 3)),
            )
            seen += [sorted(_stored(admin, asked), key=repr)]
    forget(door)
    return seen


# Every API

LEVELS: dict[str, list[AclCreation]] = {
    "nothing": [],
    "DESCRIBE": [
        rule(ResourceType.TOPIC, "*", operation=Operation.DESCRIBE),
        rule(ResourceType.GROUP, "*", operation=Operation.DESCRIBE),
        rule(ResourceType.CLUSTER, "kafka-cluster", operation=Operation.DESCRIBE),
    ],
    "READ": [
        rule(ResourceType.TOPIC, "*", operation=Operation.READ),
        rule(ResourceType.GROUP, "*", operation=Operation.READ),
    ],
    "DENY": [
        rule(ResourceType.TOPIC, "*", operation=Operation.ALL),
        rule(ResourceType.GROUP, "*", operation=Operation.ALL),
        rule(ResourceType.TOPIC, "t", PatternType.PREFIXED, operation=2, permission=Permission.DENY),
        rule(ResourceType.GROUP, "g", PatternType.PREFIXED, operation=2, permission=Permission.DENY),
    ],
}
DENIALS = frozenset({29, 30, 31, 53})


def denials(message: Struct, path: str = "") -> list[tuple[str, int]]:
    """Where a reply denies something, sorted; that something else is wrong does not count."""
    found: list[tuple[str, int]] = []
    for field in message.fields:
        value = getattr(message, field.name)
        here = f"{path}.{field.name}"
        if field.name.endswith("error_code") and value in DENIALS:
            found.append((here, value))
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                found += denials(inner, here)
    return sorted(found)


def every_api(door: Door) -> Seen:
    """50: each version of each API as a user with more and more rights: the same is denied."""
    seen: Seen = []
    topic_id = made(door, "t")
    for level, rules in LEVELS.items():
        if rules:
            store(door, *rules)
        for key, version in versions():
            if RULES[key] is free or (key in CHANGING and level != "nothing"):
                continue
            with door.user("alice") as raw:
                request = exemplar(key, topic_id)
                if hasattr(request, "timeout_ms"):
                    request.timeout_ms = 30_000
                reply = said(raw, request, version)
                seen += [(level, key.name, version, reply if reply == CLOSED else denials(reply))]
        forget(door)
    return seen


# Requests that would change what the next ones see, once they are allowed, or wait for others.
CHANGING = frozenset(
    {ApiKey.DELETE_TOPICS, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}
)


def super_user(door: Door) -> Seen:
    """49: what is denied to all is not denied to a super user."""
    everything = [
        rule(kind, name, principal="User:*", operation=Operation.ALL, permission=Permission.DENY)
        for kind, name in ((2, "*"), (3, "*"), (4, "kafka-cluster"))
    ]
    made(door, "t")
    store(door, *everything)
    try:
        with door.user("admin") as admin:
            return [one.error_code for one in metadata(admin, "t").topics]
    finally:
        forget(door)


def existence(door: Door) -> Seen:
    """51: a denied topic looks the same whether or not it exists."""
    seen: Seen = []
    made(door, "t")
    with door.user("alice") as raw:
        for name in ("t", "missing"):
            for create_it in (False, True):
                asked = MetadataRequest(
                    topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=create_it
                )
                (found,) = said(raw, asked, 12).topics
                seen += [(found.error_code, found.topic_id, found.is_internal, found.partitions)]
    return seen


SCRIPTS: dict[str, Callable[[Door], Seen]] = {
    one.__name__: one
    for one in (
        before_the_log_in, plain_tokens, raw_tokens, scram_messages, unsecured_tokens, sessions, users,
        rules_that_cannot_be, verdicts, filters, every_api, super_user, existence,
    )
}  # fmt: skip
