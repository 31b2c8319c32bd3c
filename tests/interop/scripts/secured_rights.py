"""Users and rules on a secured broker: scripts that Kafka and Kohort answer alike (security 9)."""

from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

from tests.broker.asking import create, metadata
from tests.broker.exemplars import exemplar, versions
from tests.broker.raw import Raw
from tests.broker.security.test_acls import EVERY_RULE
from tests.broker.security.test_needed_rights import NEEDED, codes_of, named_twice, rules_for
from tests.interop.scripts.exchange import Reply
from tests.interop.scripts.plain import Names, Plain, plain_answer
from tests.interop.scripts.secured import (
    CLOSED,
    Door,
    Seen,
    before_the_log_in,
    plain_tokens,
    raw_tokens,
    said,
    scram_messages,
    sessions,
    unsecured_tokens,
)

from kohort.broker.handlers import SERVED
from kohort.codec.schema import Message, Struct
from kohort.security.acls import AclResourceType, Operation, PatternType, Permission
from kohort.wire.apis import ApiKey
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

# Users


def users(door: Door) -> Seen:
    """Security scenarios 30, 31. Credentials that can be, and those that cannot."""

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
    kind: int = AclResourceType.TOPIC,
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
    with door.user("admin") as admin:
        said(admin, DeleteAclsRequest(filters=[EVERY_RULE]))
        while _stored(admin):
            continue


def rules_that_cannot_be(door: Door) -> Seen:
    """Security scenario 46. What CreateAcls refuses. Kohort alone checks principals and hosts."""
    kinds = AclResourceType
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


def _random_rules(dice: Random, count: int, names: Sequence[str] = NAMES) -> list[AclCreation]:
    return [
        rule(
            dice.choice((AclResourceType.TOPIC, AclResourceType.TOPIC, AclResourceType.GROUP)),
            dice.choice(names),
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
    """Security scenario 44. Random rules, asked through the bits of Metadata.

    Security trap 7. READ implies DESCRIBE only for ALLOW.
    """
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
    return seen + _many_verdicts(door)


def _many_verdicts(door: Door) -> Seen:
    """300 rules at once, and what they mean for 2,000 topics that are not there."""
    dice = Random(2_000)
    names = ["".join(letters) for size in range(1, 8) for letters in product("abc", repeat=size)]
    store(door, *_random_rules(dice, 300, [name for name in names if 2 <= len(name) <= 5]))
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in dice.sample(names, 2_000)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    with door.user("alice") as raw:
        found = said(raw, asked, 12).topics
    forget(door)
    assert len({one.topic_authorized_operations for one in found}) > 10  # the rules do count
    return [*sorted((one.name, one.error_code, one.topic_authorized_operations) for one in found)]


def filters(door: Door) -> Seen:
    """Security scenario 45. Which rules a filter finds."""
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
        rule(AclResourceType.TOPIC, "*", operation=Operation.DESCRIBE),
        rule(AclResourceType.GROUP, "*", operation=Operation.DESCRIBE),
        rule(AclResourceType.CLUSTER, "kafka-cluster", operation=Operation.DESCRIBE),
    ],
    "READ": [
        rule(AclResourceType.TOPIC, "*", operation=Operation.READ),
        rule(AclResourceType.GROUP, "*", operation=Operation.READ),
    ],
    "DENY": [
        rule(AclResourceType.TOPIC, "*", operation=Operation.ALL),
        rule(AclResourceType.GROUP, "*", operation=Operation.ALL),
        rule(AclResourceType.TOPIC, "t", PatternType.PREFIXED, operation=2, permission=Permission.DENY),
        rule(AclResourceType.GROUP, "g", PatternType.PREFIXED, operation=2, permission=Permission.DENY),
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


def denied_parts(answer: Plain) -> list[str]:
    """The parts of an answer that deny something, each whole."""
    if isinstance(answer, dict):
        is_denied = any(name.endswith("error_code") and answer[name] in DENIALS for name in answer)
        return (
            [repr(answer)] if is_denied else [one for each in answer.values() for one in denied_parts(each)]
        )
    return [one for each in answer for one in denied_parts(each)] if isinstance(answer, list) else []


def whole(reply: Any, version: int) -> Plain:  # noqa: ANN401 - a reply
    """All of it, but for what differs between any two brokers."""
    return reply if reply == CLOSED else plain_answer(Reply(reply, version), Names())


def sensible(key: ApiKey, topic_id: bytes) -> Message:
    request = exemplar(key, topic_id)
    if hasattr(request, "timeout_ms"):
        request.timeout_ms = 30_000
    return request


FREE = frozenset(api.key for api in SERVED if api.rule == "free")


def every_api(door: Door) -> Seen:
    """Security scenario 50. Each version of each API: without rights, the whole reply; with more and more of
    them, and with such that are denied again, each part that denies something.
    """
    seen: Seen = []
    made(door, "nowhere")  # or Metadata would make it while others ask
    topic_id = made(door, "t")
    for level, rules in LEVELS.items():
        if rules:
            store(door, *rules)
        for key, version in versions():
            if key in FREE or (key in CHANGING and level != "nothing"):
                continue
            with door.user("alice") as raw:
                answer = whole(said(raw, sensible(key, topic_id), version), version)
            seen += [(level, key.name, version, sorted(denied_parts(answer)))]
            if level == "nothing" and key is not ApiKey.DELETE_TOPICS:  # Kafka shuffles its answers
                seen += [(key.name, version, answer)]
        forget(door)
    return seen


# What they answer to those who may ask differs for other reasons; test_scripts.py compares it. Deleted topics
# come in random order, so that it tells nothing.
DIFFERENT = frozenset(
    {
        ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_CONFIG_RESOURCES, ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.UPDATE_FEATURES,
    }
)  # fmt: skip


def exact_rights(door: Door) -> Seen:
    """Security scenario 50. Each version of each API with what it needs: nothing is denied, and the whole
    reply is compared.
    """
    seen: Seen = []
    made(door, "nowhere")
    topic_id = made(door, "t")
    settle(door)
    for key, rights in NEEDED.items():
        store(door, *rules_for(rights))
        for version in (version for one, version in versions() if one == key):
            with door.user("alice") as raw:
                answer = whole(said(raw, sensible(key, topic_id), version), version)
            seen += [(key.name, version, denied_parts(answer) if key in DIFFERENT else answer)]
        forget(door)
    return seen


def settle(door: Door) -> None:
    """Wait until the group of the requests has a coordinator, and producers get ids."""
    with door.user("admin") as admin:
        while said(admin, sensible(ApiKey.DESCRIBE_GROUPS, b""), 0).groups[0].error_code:
            said(admin, sensible(ApiKey.FIND_COORDINATOR, b""), 0)
        while said(admin, sensible(ApiKey.INIT_PRODUCER_ID, b""), 0).error_code:
            continue


# Requests that would change what the next ones see, once they are allowed, or wait for others.
CHANGING = frozenset(
    {ApiKey.DELETE_TOPICS, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}
)


def repeats(door: Door) -> Seen:
    """Security scenario 50. What is named twice, by a user without rights."""
    with door.user("alice") as raw:
        return [(what, sorted(codes_of(raw, *asked))) for what, asked in named_twice(made(door, "t")).items()]


def super_user(door: Door) -> Seen:
    """Security scenario 49. What is denied to all is not denied to a super user."""
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
    """Security scenario 51. A denied topic looks the same whether or not it exists."""
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
        for of_there, of_missing in zip(_about("t"), _about("missing"), strict=True):
            there, missing = said(raw, of_there), said(raw, of_missing)
            alike = repr(there).replace("'t'", "'missing'") == repr(missing)
            seen += [(type(there).__name__, alike, denials(there))]
            assert alike
    return seen


def _about(topic: str) -> list[Message]:
    """Requests of a kind that names a topic, for each right that there is on one."""
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return [
        ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=partitions)]),
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]),
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=topic)]),
        DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000),
    ]


SCRIPTS: dict[str, Callable[[Door], Seen]] = {
    one.__name__: one
    for one in (
        before_the_log_in, plain_tokens, raw_tokens, scram_messages, unsecured_tokens, sessions, users,
        rules_that_cannot_be, verdicts, filters, every_api, exact_rights, repeats, super_user, existence,
    )
}  # fmt: skip
