"""Every client of ours on a secured Apache Kafka: each way in, wrong credentials, rights that are taken away.

The broker ends each SASL session after two seconds: all that takes longer logs in again on its connection.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.broker.security.secured import USERS, serving
from tests.clients.waiting import eventually
from tests.interop.conftest import need
from tests.interop.scripts.secured import Door
from tests.interop.scripts.secured_rights import SCRIPTS, forget
from tools.peers.kafka_broker import SecuredKafka, secured_kafka
from tools.peers.kafka_tools import Tool, ToolShell
from tools.peers.pins import Peer
from typer.testing import CliRunner

from kohort import Admin, AsyncAdmin, AuthenticationError, Consumer, NewTopic, Producer, Secret, TlsError
from kohort.cli.app import command_line
from kohort.client.cluster import Role
from kohort.client.errors import (
    GroupAuthorizationError,
    SecurityError,
    TopicAuthorizationError,
)
from kohort.client.security.sasl import UnsecuredToken
from kohort.model.errors import KohortError, ProtocolError
from kohort.security.certs import DevAuthority
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PASSWORDS = {"admin": "canary-admin", "alice": "canary-alice"}
SESSION_MS = 2_000
TOPIC, GROUP = 2, 3
READ, WRITE = 3, 4
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
FreshName = Callable[[str], str]
Settings = dict[str, Any]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    need(Peer.KAFKA)
    certificates = tmp_path_factory.mktemp("certificates")
    authority = DevAuthority(datetime.now(UTC))
    (certificates / "ca.pem").write_text(authority.certificate)
    (certificates / "broker.pem").write_text(authority.issue("broker"))
    (certificates / "client.pem").write_text(authority.issue("admin"))
    settings = {
        "connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "log.initial.task.delay.ms": "3600000",  # records have old timestamps: they would go after 30 s
    }
    home = tmp_path_factory.mktemp("secured")
    with secured_kafka(certificates, PASSWORDS, home, settings) as running:
        yield running


def as_user(kafka: SecuredKafka, user: str = "admin", mechanism: str = "SCRAM-SHA-256") -> Settings:
    return {
        "bootstrap_servers": kafka.bootstrap("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(kafka.certificates / "ca.pem"),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": kafka.passwords[user],
    }


def with_token(kafka: SecuredKafka) -> Settings:
    return {
        "bootstrap_servers": kafka.bootstrap("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": (kafka.certificates / "ca.pem").read_text().replace("\n", " "),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": UnsecuredToken("admin"),
    }


def with_certificate(kafka: SecuredKafka) -> Settings:
    return {
        "bootstrap_servers": kafka.bootstrap("MTLS"),
        "security_protocol": "SSL",
        "ssl_cafile": str(kafka.certificates / "ca.pem"),
        "ssl_certdata": (kafka.certificates / "client.pem").read_text(),
    }


WAYS: dict[str, Callable[[SecuredKafka], Settings]] = {
    "SCRAM-SHA-256": as_user,
    "SCRAM-SHA-512": lambda kafka: as_user(kafka, mechanism="SCRAM-SHA-512"),
    "PLAIN": lambda kafka: as_user(kafka, mechanism="PLAIN"),
    "OAUTHBEARER": with_token,
    "mutual TLS": with_certificate,
    "SASL_PLAINTEXT": lambda kafka: {
        "bootstrap_servers": kafka.bootstrap("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="admin" password="{PASSWORDS["admin"]}";',
    },
}


def admin_of(settings: Settings) -> Admin:
    given = dict(settings)
    return Admin(given.pop("bootstrap_servers"), **given)


def made(kafka: SecuredKafka, topic: str) -> str:
    with admin_of(as_user(kafka)) as admin:
        admin.create_topic(NewTopic(name=topic, partitions=2))
    return topic


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        try:
            values += [one.value for batch in consumer.poll(timeout_ms=500).values() for one in batch]
        except TopicAuthorizationError:
            continue  # what a loop does that waits for a right
    return values


@pytest.mark.parametrize("way", WAYS)
def test_each_listener_shows_its_own_address(kafka: SecuredKafka, way: str) -> None:
    """Security scenario 1. Given several listeners, then Metadata on each shows its own address."""
    settings = WAYS[way](kafka)
    with admin_of(settings) as admin:
        (node,) = admin.describe_cluster().nodes
        assert f"localhost:{node.port}" == settings["bootstrap_servers"]


@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_records_go_through_a_group(kafka: SecuredKafka, fresh_name: FreshName, way: str) -> None:
    settings, topic = WAYS[way](kafka), made(kafka, fresh_name("secured"))
    sent = [b"%d" % number for number in range(1_000)]
    with Producer(**settings) as producer:
        for value in sent:
            producer.send(topic, value)
    with Consumer(**settings, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert sorted(read(consumer, 1_000), key=str) == sorted(sent, key=str)
        consumer.commit()
    with admin_of(settings) as admin:
        assert sum(found.offset for found in admin.list_group_offsets(topic).values()) == 1_000


def test_sessions_are_renewed_while_records_flow(kafka: SecuredKafka, fresh_name: FreshName) -> None:
    topic, settings = made(kafka, fresh_name("renewed")), as_user(kafka)
    values: list[bytes | None] = []
    with (
        Producer(**settings) as producer,
        Consumer(**settings, group_id=topic, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        end, sent = time.monotonic() + 4 * SESSION_MS / 1_000, 0
        while time.monotonic() < end:
            producer.send(topic, b"%d" % sent, partition=0).result(30)
            sent += 1
            values += [one.value for batch in consumer.poll(timeout_ms=50).values() for one in batch]
        values += read(consumer, sent - len(values))
    assert values == [b"%d" % number for number in range(sent)], "in order, none twice"


CLIENTS: dict[str, Callable[[Settings], Any]] = {
    "consumer": lambda given: Consumer(**given),
    "member": lambda given: Consumer(**given, group_id="never"),
    "producer": lambda given: Producer(**given),
    "admin": admin_of,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_an_error_at_once(kafka: SecuredKafka, client: str, mechanism: str) -> None:
    wrong = as_user(kafka, mechanism=mechanism) | {"sasl_plain_password": "canary-wrong"}
    with (
        pytest.raises(AuthenticationError, match="does not accept user 'admin'") as refused,
        CLIENTS[client](wrong),
    ):
        pytest.fail("it got in")
    assert "canary" not in str(refused.value)


def test_a_password_that_changed_in_its_file_is_read_again(kafka: SecuredKafka, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("canary-wrong")
    settings = as_user(kafka) | {"sasl_plain_password": Secret.file(file)}
    with pytest.raises(AuthenticationError), admin_of(settings):
        pytest.fail("it got in")
    file.write_text(f"{PASSWORDS['admin']}\n")
    with admin_of(settings) as admin:
        assert admin.describe_cluster().nodes


WRONG_DOORS: dict[str, tuple[str, Settings, type[KohortError], str]] = {
    "unknown authority": ("SSL", {"security_protocol": "SSL"}, TlsError, "signed by an unknown authority"),
    "plaintext on TLS": ("SSL", {}, ProtocolError, "TLS listener"),
    "TLS on plaintext": ("SASL_PLAINTEXT", {"security_protocol": "SSL"}, KohortError, "is it a TLS listener"),
    "no log-in": ("SASL_PLAINTEXT", {}, KohortError, "does the listener require a log-in"),
    "no certificate": (
        "MTLS", {"security_protocol": "SSL", "ssl_cafile": "ca"}, TlsError, "client certificate",
    ),
    "no certificate, TLS 1.2": (
        "MTLS",
        {"security_protocol": "SSL", "ssl_cafile": "ca", "ssl_max_version": "TLSv1.2"},
        TlsError,
        "client certificate",
    ),
    "no SASL there": (
        "SSL",
        {"security_protocol": "SASL_SSL", "ssl_cafile": "ca", "sasl_mechanism": "PLAIN",
         "sasl_plain_username": "a", "sasl_plain_password": "b"},
        SecurityError,
        "has no SASL",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_DOORS)
def test_the_wrong_listener_is_named(kafka: SecuredKafka, case: str) -> None:
    listener, settings, error, why = WRONG_DOORS[case]
    if "ssl_cafile" in settings:
        settings = settings | {"ssl_cafile": str(kafka.certificates / "ca.pem")}
    with pytest.raises(error, match=why), Admin(kafka.bootstrap(listener), **settings):
        pytest.fail("it got in")


# Rights


async def _allow(settings: Settings, resource: int, name: str, operation: int) -> None:
    given = dict(settings)
    async with AsyncAdmin(given.pop("bootstrap_servers"), **given) as admin:
        wanted = AclCreation(
            resource_type=resource, resource_name=name, principal="User:alice", host="*",
            operation=operation, permission_type=3,
        )  # fmt: skip
        reply = await admin.cluster.ask(
            Role.CONTROLLER, CreateAclsRequest(creations=[wanted]), CreateAclsResponse
        )
        assert [one.error_code for one in reply.results] == [0]


async def _forbid(settings: Settings, resource: int, name: str) -> None:
    given = dict(settings)
    async with AsyncAdmin(given.pop("bootstrap_servers"), **given) as admin:
        which = DeleteAclsFilter(
            resource_type_filter=resource, resource_name_filter=name, pattern_type_filter=3,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        reply = await admin.cluster.ask(
            Role.CONTROLLER, DeleteAclsRequest(filters=[which]), DeleteAclsResponse
        )
        assert [len(one.matching_acls) for one in reply.filter_results] == [1]


def allow(kafka: SecuredKafka, resource: int, name: str, operation: int) -> None:
    asyncio.run(_allow(as_user(kafka), resource, name, operation))


def polled(consumer: Consumer) -> Exception | None:
    """What a poll raises, if one of many does."""
    for _ in range(100):
        try:
            consumer.poll(timeout_ms=100)
        except KohortError as error:
            return error
    return None


def test_a_right_that_is_taken_away_while_consuming_is_named_and_given_back_it_counts(
    kafka: SecuredKafka, fresh_name: FreshName
) -> None:
    topic = made(kafka, fresh_name("revoked"))
    allow(kafka, TOPIC, topic, READ)
    allow(kafka, GROUP, topic, READ)
    with (
        Producer(**as_user(kafka)) as producer,
        Consumer(**as_user(kafka, "alice"), group_id=topic, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        producer.send(topic, b"before").result(30)
        assert read(consumer, 1) == [b"before"]
        asyncio.run(_forbid(as_user(kafka), TOPIC, topic))
        producer.send(topic, b"after").result(30)
        error = polled(consumer)
        assert isinstance(error, TopicAuthorizationError)
        assert topic in str(error)
        allow(kafka, TOPIC, topic, READ)
        producer.send(topic, b"again").result(30)  # "after" may have come by a Fetch that waited before
        assert read(consumer, 1)[-1:] == [b"again"]


def test_what_a_user_may_not_do_is_named(kafka: SecuredKafka, fresh_name: FreshName) -> None:
    topic, alice = made(kafka, fresh_name("denied")), as_user(kafka, "alice")
    with Producer(**alice) as producer, pytest.raises(TopicAuthorizationError, match=topic):
        producer.send(topic, b"x").result(30)
    with Consumer(**alice, group_id=topic) as consumer:
        consumer.subscribe([topic])
        assert isinstance(polled(consumer), TopicAuthorizationError | GroupAuthorizationError)
    allow(kafka, TOPIC, topic, READ)

    def is_denied_by_its_group() -> bool:
        with Consumer(**alice, group_id=topic) as consumer:
            consumer.subscribe([topic])
            return isinstance(polled(consumer), GroupAuthorizationError)

    eventually("the right to read the topic to count", is_denied_by_its_group)
    with admin_of(alice) as admin, pytest.raises(TopicAuthorizationError):
        admin.create_topic(NewTopic(name=fresh_name("denied"), partitions=1))


# The same scripts on both (security 9)


@pytest.fixture(scope="session")
def doors(kafka: SecuredKafka) -> Iterator[tuple[Door, Door]]:
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "kohort.oauthbearer.unsecured": "true",
        "connection.failed.authentication.delay.ms": "0",  # it grows with each failure
        "connections.max.reauth.ms": str(SESSION_MS),
        "authorizer": "acl",
        "super.users": "User:admin;User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
    }
    with serving("SASL_PLAINTEXT", settings=settings) as kohort:
        yield (
            Door(kafka.bootstrap("SASL_PLAINTEXT", "127.0.0.1"), dict(kafka.passwords)),
            Door(kohort.address("SASL_PLAINTEXT"), USERS),
        )


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_brokers_answer_alike_at_their_doors(doors: tuple[Door, Door], script: str) -> None:
    for door in doors:
        forget(door)  # rules that other tests left in the Kafka they share
    of_kafka, of_kohort = (SCRIPTS[script](door) for door in doors)
    differing = [(a, b) for a, b in zip(of_kohort, of_kafka, strict=False) if a != b]
    assert not differing, "Kohort, Kafka:\n" + "\n".join(map(str, differing))
    assert len(of_kohort) == len(of_kafka)


ALICE = ("--allow-principal", "User:alice")
ACL_COMMANDS = (
    ("--add", *ALICE, "--topic", "t", "--producer", "--idempotent"),
    ("--add", *ALICE, "--topic", "t", "--group", "g", "--consumer"),
    ("--add", "--deny-principal", "User:bob", "--topic", "s", "--operation", "All",
     "--resource-pattern-type", "prefixed"),
    ("--list",),
    ("--list", "--topic", "secret", "--resource-pattern-type", "match"),
    ("--remove", "--force", *ALICE, "--topic", "t", "--producer"),
    ("--list",),
)  # fmt: skip


def test_kafka_acls_prints_the_same_for_both(
    doors: tuple[Door, Door], kafka_tools: ToolShell, tmp_path: Path
) -> None:
    """Security scenario 47. Adds, lists and removals of Kafka's own tool; it prints rules in any order."""
    printed: list[list[list[str]]] = []
    for door in doors:
        forget(door)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="admin" password="{door.passwords["admin"]}";'
        config = tmp_path / "admin.properties"
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
        )
        at = ("--bootstrap-server", door.address, "--command-config", str(config))
        said = [kafka_tools.check(Tool.ACLS, *at, *command).stdout for command in ACL_COMMANDS]
        printed.append([sorted(line.strip() for line in one.splitlines()) for one in said])
        forget(door)
    of_kafka, of_kohort = printed
    assert of_kohort == of_kafka
    listed, matching, left = of_kohort[3], of_kohort[4], of_kohort[6]
    assert "(principal=User:alice, host=*, operation=IDEMPOTENT_WRITE, permissionType=ALLOW)" in listed
    assert "(principal=User:bob, host=*, operation=ALL, permissionType=DENY)" in matching
    assert not any("operation=WRITE" in line for line in left)


# The command line


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command_line(), list(arguments))
    return done.exit_code, done.output


def test_commands_take_javas_file_and_properties(
    kafka: SecuredKafka, fresh_name: FreshName, tmp_path: Path
) -> None:
    topic = made(kafka, fresh_name("commands"))
    (tmp_path / "password").write_text(PASSWORDS["admin"])
    (tmp_path / "wrong").write_text("canary-wrong")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={kafka.certificates / 'ca.pem'}\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM} required username="admin" password="@{tmp_path / "password"}";\n'
    )
    where = ("--bootstrap", kafka.bootstrap("SASL_SSL"), "--command-config", str(file))
    assert run("produce", topic, "a", "b", "-q", *where)[0] == 0
    code, output = run("consume", topic, "--group", topic, "--max", "2", "-q", "--format", "value", *where)
    assert (code, sorted(output.split())) == (0, ["a", "b"])
    code, output = run("groups", "list", "--json", *where)
    assert topic in [each["group"] for each in json.loads(output)]
    ca, wrong = f"ssl.ca.location={kafka.certificates / 'ca.pem'}", f"sasl.password=@{tmp_path / 'wrong'}"
    code, output = run(
        *("topics", "list", "--bootstrap", kafka.bootstrap("SASL_SSL"), "-X", "security.protocol=SASL_SSL"),
        *("-X", ca, "-X", "sasl.mechanisms=PLAIN", "-X", "sasl.username=admin", "-X", wrong),
    )
    assert code == 1
    assert "does not accept user 'admin' with PLAIN" in output
    assert "canary" not in output
