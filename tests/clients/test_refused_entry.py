"""Our consumer, producer and command line where they may not enter: each reason is a named error, at once."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.broker.security.secured import USERS, Certificates, RunningServer, serving
from typer.testing import CliRunner

from kohort import AuthenticationError, Consumer, KohortError, Producer, TlsError
from kohort.broker.topics import TopicToCreate
from kohort.cli.app import command_line
from kohort.client.errors import TopicAuthorizationError
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.security.certs import DevAuthority

pytestmark = pytest.mark.slow


class Refusal(NamedTuple):
    """A listener or a password that is wrong, and what our clients call it."""

    listener: str
    error: type[KohortError]
    why: str
    password: str = USERS["alice"]


REFUSALS = {
    "an expired certificate": Refusal("EXPIRED", TlsError, "has expired"),
    "a wrong host name": Refusal("ELSEWHERE", TlsError, "is not for the address 127.0.0.1"),
    "an unknown authority": Refusal("FOREIGN", TlsError, "is signed by an unknown authority"),
    "a wrong password": Refusal("GOOD", AuthenticationError, "does not accept user 'alice'", "wrong"),
}


class Doors:
    """One broker with a listener for each certificate."""

    def __init__(self, running: RunningServer, certificates: Certificates) -> None:
        self.running = running
        self.certificates = certificates

    def settings(self, listener: str = "GOOD", user: str = "alice", password: str = "") -> dict[str, Any]:
        return {
            "bootstrap_servers": self.running.address(listener),
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.certificates.ca,
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": user,
            "sasl_plain_password": password or USERS[user],
        }

    def command(self, settings: dict[str, Any], *words: str) -> tuple[int, str]:
        """Run one with its settings in a file; its exit code, and what it says."""
        given = dict(settings)
        address = given.pop("bootstrap_servers")
        text = "\n".join(f"{name.replace('_', '.')}={value}" for name, value in given.items())
        file = Path(self.certificates.write("client.properties", text))
        file.chmod(0o600)
        arguments = [*words, "--bootstrap", address, "--command-config", str(file)]
        done = CliRunner().invoke(command_line(arguments[:1]), arguments)
        return done.exit_code, " ".join(done.output.split())

    def change(self, removed: list[Acl], added: list[Acl]) -> None:
        broker = self.running.server.broker

        async def store() -> None:
            await broker.catalog.change_acls(removed, added)
            assert broker.authorizer is not None
            broker.authorizer.changed(broker.catalog.acls)

        self.running.loop.submit(store()).result()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    certificates = Certificates(tmp_path_factory.mktemp("refused"))
    own, foreign = certificates.authority, DevAuthority(datetime.now(UTC), name="another")
    chains = {
        "GOOD": own.issue("broker"),
        "EXPIRED": own.issue("broker", days=-1),
        "ELSEWHERE": own.issue("broker", ["localhost"]),
        "FOREIGN": foreign.issue("broker"),
    }
    settings = certificates.settings(
        listener_security_protocol_map=",".join(f"{name}:SASL_SSL" for name in chains),
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        connection_failed_authentication_delay_ms="0",
        group_initial_rebalance_delay_ms="0",
        authorizer="acl",
        super_users="User:admin",
    )
    for name, chain in chains.items():
        location = certificates.write(f"{name}.pem", chain)
        settings[f"listener.name.{name.lower()}.ssl.keystore.location"] = location
    with serving(*chains, settings=settings) as running:
        running.loop.submit(running.server.broker.topics.create(TopicToCreate("t", 1))).result()
        yield Doors(running, certificates)


def consume(settings: dict[str, Any]) -> None:
    with Consumer("t", group_id="g", **settings) as consumer:
        consumer.poll(timeout_ms=30_000)


def produce(settings: dict[str, Any]) -> None:
    with Producer(**settings) as producer:
        producer.send("t", b"value").result(60)


@pytest.mark.parametrize("use", [consume, produce])
@pytest.mark.parametrize("case", REFUSALS)
def test_a_client_that_may_not_enter_names_the_reason(doors: Doors, case: str, use: Any) -> None:  # noqa: ANN401
    """Security scenario 17. Also scenario 55, through the consumer and the producer."""
    listener, error, why, password = REFUSALS[case]
    with pytest.raises(error, match=why) as refused:
        use(doors.settings(listener, password=password))
    assert not refused.value.retriable


@pytest.mark.parametrize("case", REFUSALS)
def test_a_command_that_may_not_enter_names_the_reason(doors: Doors, case: str) -> None:
    listener, _, why, password = REFUSALS[case]
    code, said = doors.command(doors.settings(listener, password=password), "topics", "list")
    assert code != 0
    assert why in said
    assert password not in said.replace("command-config", "")


def test_a_right_that_is_taken_away_is_named_by_producer_and_command(doors: Doors) -> None:
    rule = Acl(
        AclResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice", "*", Operation.ALL, Permission.ALLOW
    )
    alice = doors.settings()
    doors.change([], [rule])
    with Producer(**alice) as producer:
        producer.send("t", b"before").result(60)
        assert doors.command(alice, "topics", "describe", "t")[0] == 0
        doors.change([rule], [])
        with pytest.raises(TopicAuthorizationError, match="t"):
            producer.send("t", b"after").result(60)
    code, said = doors.command(alice, "topics", "describe", "t")
    assert code != 0
    assert "TOPIC_AUTHORIZATION_FAILED" in said


@pytest.mark.parametrize("things", ["topics", "groups"])
def test_an_empty_list_says_that_there_may_be_more_than_the_user_sees(doors: Doors, things: str) -> None:
    """Security trap 9. A broker leaves out what a user may not describe, and says no word about it."""
    code, said = doors.command(doors.settings(user="bob"), things, "list")
    assert (code, said) == (0, f"no {things} that this user may describe")


def test_a_user_who_is_not_there_cannot_be_removed(doors: Doors) -> None:
    code, said = doors.command(doors.settings(user="admin"), "users", "remove", "carol")
    assert code == 1
    assert "there is no user of this name" in said
    assert "`kohort users list`" in said


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_log_in_that_is_refused_at_the_coordinator_alone_is_raised_by_the_next_poll(
    doors: Doors, protocol: str
) -> None:
    """What is open stays open, and the connection to the coordinator is refused: no poll waits for it."""
    given = doors.settings(user="admin")
    broker = doors.running.server.broker
    with Consumer(group_id="g", group_protocol=protocol, **given) as consumer:
        consumer.topics()
        kept = {key: value for key, value in broker.catalog.credentials.items() if key[0] == "admin"}
        doors.running.loop.submit(broker.catalog.change_credentials(list(kept), {})).result()
        try:
            consumer.subscribe(["t"])
            with pytest.raises(AuthenticationError, match="does not accept user 'admin'"):
                consumer.poll(timeout_ms=30_000)
            assert consumer.topics() == {"t"}
        finally:
            doors.running.loop.submit(broker.catalog.change_credentials((), kept)).result()
