"""The commands of docs/howto/secure-a-broker.md, in their order, and a client of another library."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from tests.cli.conftest import LISTENING, STOP_SECONDS

SERVE = (
    "serve --listen SASL_SSL://127.0.0.1:0 --data D --set ssl.keystore.type=PEM "
    "--set ssl.keystore.location=certs/broker.pem --set sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN "
    "--set authorizer=acl --set super.users=User:admin --set group.initial.rebalance.delay.ms=0 "
    "--user admin:@admin.password"
)
PROPERTIES = r"""security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=certs/ca.pem
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
 username="{user}" password="{user}-secret";
"""


class Secured:
    """A directory with certificates and passwords, and a broker that uses them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.address = ""
        self.kohort("certs dev --out certs")
        for user in ("admin", "alice"):
            password = home / f"{user}.password"
            password.write_text(f"{user}-secret\n")
            password.chmod(0o600)
            text = PROPERTIES.format(user=user)
            (home / f"{user}.properties").write_text(text)

    def kohort(self, command: str, *, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kohort.cli.main", *command.split()],
            cwd=self.home,
            env={**os.environ, "KOHORT_BOOTSTRAP": self.address},
            capture_output=True,
            text=True,
            check=False,
            timeout=STOP_SECONDS,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def settings(self, mechanism: str, password: str = "alice-secret") -> dict[str, str]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.home / "certs" / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    command = [sys.executable, "-m", "kohort.cli.main", *SERVE.split()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=made.home
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(rf"{LISTENING}SASL_SSL://(127\.0\.0\.1:\d+)\n", line)
            assert found, process.stderr.read() if process.stderr else line
            made.address = found[1]
            made.kohort("users add alice --password @alice.password --command-config admin.properties")
            yield made
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_user_gets_in_and_does_what_the_rules_allow(secured: Secured) -> None:
    kohort = secured.kohort
    kohort("topics create orders --command-config admin.properties")
    assert "orders" not in kohort("topics list --command-config alice.properties")
    kohort(
        "acls add --principal User:alice --operation READ --operation WRITE --topic ord --prefix "
        "--command-config admin.properties"
    )
    kohort("acls add --principal User:alice --operation READ --group g --command-config admin.properties")
    assert "alice" in kohort("users list --command-config admin.properties")
    outcomes: list[KafkaError | None] = []
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        producer = Producer(secured.settings(mechanism))
        producer.produce("orders", mechanism.encode(), on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(30) == 0
    assert outcomes == [None, None]
    consumer = Consumer(secured.settings("PLAIN") | {"group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["orders"])
        values = {message.value() for message in consumer.consume(2, 30) if message.error() is None}
        assert values == {b"SCRAM-SHA-256", b"PLAIN"}
    finally:
        consumer.close()
    why = kohort("groups why g --command-config admin.properties")
    assert "g: Empty, 0 members" in why
    denied = kohort("groups why g --command-config alice.properties", code=1)
    assert "'__kohort_journal'" in denied
    assert "TOPIC_AUTHORIZATION_FAILED" in denied
    listed = kohort("acls list --topic orders --json --command-config admin.properties")
    assert listed.count("User:alice") == 2
    assert "removed 2 rules" in kohort(
        "acls remove --principal User:alice --topic ord --prefix --command-config admin.properties"
    )


@pytest.mark.slow
def test_a_wrong_password_is_named_and_no_password_is_shown(secured: Secured) -> None:
    text = (secured.home / "alice.properties").read_text().replace("alice-secret", "a-wrong-one")
    (secured.home / "wrong.properties").write_text(text)
    said = secured.kohort("topics list --command-config wrong.properties", code=1)
    assert "does not accept user 'alice'" in said
    assert "a-wrong-one" not in said
    consumer = Consumer(secured.settings("PLAIN", "a-wrong-one") | {"group.id": "g"})
    try:
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=3)
    finally:
        consumer.close()


@pytest.mark.slow
def test_a_broker_of_an_unknown_authority_is_refused_by_name(secured: Secured) -> None:
    secured.kohort("certs dev --out others")
    text = (secured.home / "alice.properties").read_text().replace("certs/ca.pem", "others/ca.pem")
    (secured.home / "others.properties").write_text(text)
    for command in ("topics list", "groups list", "produce t x", "consume t --max 1"):
        said = secured.kohort(f"{command} --command-config others.properties", code=1)
        assert "is signed by an unknown authority" in said
        assert "alice-secret" not in said


@pytest.mark.slow
def test_administration_needs_rights(secured: Secured) -> None:
    for command in ("users list", "acls list", "users add eve --password @alice.password"):
        said = secured.kohort(f"{command} --command-config alice.properties", code=1)
        assert "CLUSTER_AUTHORIZATION_FAILED" in said


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("acls add --principal User:a --operation FLY --topic t", "there is no 'FLY'"),
        ("acls add --principal User:a --operation READ", "needs a resource"),
        ("acls add --operation READ --topic t", "needs --principal"),
        ("acls add --principal User:a --operation READ --topic t --group g", "about one resource"),
        ("acls remove", "choose which rules to remove"),
        ("users add a --password @missing", "cannot read the file"),
        ("users add a --password @alice.password --mechanism MD5", "no such mechanism"),
    ],
)
def test_slips_are_named_before_anything_is_asked(secured: Secured, command: str, message: str) -> None:
    assert message in secured.kohort(command, code=2)
