"""Kafka's own tools for users and ACLs work on a secured Kohort, with Java's TLS and SCRAM."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.security.issuer import claims, key_set, signed
from tests.broker.security.secured import Certificates, serving
from tools.peers.kafka_tools import Tool, ToolError, ToolShell

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PROPERTIES = """\
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={ca}
sasl.mechanism={mechanism}
sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required username="{user}" password="{user}-secret";
"""  # noqa: E501 - one line is one setting
OAUTH = "org.apache.kafka.common.security.oauthbearer"
MODULES = {"SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram", "PLAIN": "plain.Plain"}


class Desk:
    """The tools as a user of a secured broker."""

    def __init__(self, shell: ToolShell, address: str, certificates: Certificates) -> None:
        self._shell = shell
        self._address = address
        self._certificates = certificates

    def run(self, tool: Tool, *arguments: str, user: str = "admin", mechanism: str = "SCRAM-SHA-256") -> str:
        text = PROPERTIES.format(
            ca=self._certificates.ca, mechanism=mechanism, module=MODULES[mechanism], user=user
        )
        config = self._certificates.write(f"{user}-{mechanism}.properties", text)
        at = ("--bootstrap-server", self._address, "--command-config", config)
        return self._shell.check(tool, *at, *arguments).stdout


@pytest.fixture
def desk(kafka_tools: ToolShell, tmp_path: Path) -> Iterator[Desk]:
    certificates = Certificates(tmp_path)
    settings = certificates.settings(
        sasl_enabled_mechanisms=",".join(MODULES), authorizer="acl", super_users="User:admin"
    )
    with serving("SASL_SSL", settings=settings) as running:
        yield Desk(kafka_tools, f"localhost:{running.ports['SASL_SSL']}", certificates)


@pytest.mark.parametrize("mechanism", MODULES)
def test_javas_client_logs_in(desk: Desk, mechanism: str) -> None:
    desk.run(Tool.TOPICS, "--create", "--topic", "t", mechanism=mechanism)
    assert desk.run(Tool.TOPICS, "--list", mechanism=mechanism).split() == ["t"]
    assert desk.run(Tool.TOPICS, "--list", mechanism=mechanism, user="alice").split() == []


def test_javas_client_logs_in_with_a_token(kafka_tools: ToolShell, tmp_path: Path) -> None:
    certificates, keys = Certificates(tmp_path), tmp_path / "keys.json"
    keys.write_text(key_set())
    kafka_tools.token.write_text(signed(claims(time.time()), "ES256"))
    settings = certificates.settings(
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_expected_issuer="https://issuer",
        sasl_oauthbearer_jwks_endpoint_url=keys.as_uri(),
    )
    lines = [
        "security.protocol=SASL_SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={certificates.ca}",
        "sasl.mechanism=OAUTHBEARER",
        f"sasl.oauthbearer.token.endpoint.url={kafka_tools.token.as_uri()}",
        f"sasl.login.callback.handler.class={OAUTH}.OAuthBearerLoginCallbackHandler",
        f"sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;",
    ]
    config = certificates.write("token.properties", "\n".join(lines))
    with serving("SASL_SSL", settings=settings) as running:
        at = ("--bootstrap-server", f"localhost:{running.ports['SASL_SSL']}", "--command-config", config)
        kafka_tools.check(Tool.TOPICS, *at, "--create", "--topic", "t")
        assert kafka_tools.check(Tool.TOPICS, *at, "--list").stdout.split() == ["t"]
        kafka_tools.token.write_text(signed(claims(time.time(), iss="https://elsewhere")))
        with pytest.raises(ToolError, match="invalid_token"):
            kafka_tools.check(Tool.TOPICS, *at, "--list")


def test_kafka_configs_adds_describes_and_deletes_users(desk: Desk) -> None:
    """Security scenario 33. See security 9."""
    user = ("--entity-type", "users", "--entity-name", "carol")
    password = "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"
    desk.run(Tool.CONFIGS, "--alter", "--add-config", password, *user)
    assert desk.run(Tool.TOPICS, "--list", user="carol").split() == []
    described = "SCRAM credential configs for user-principal '{}' are SCRAM-SHA-256=iterations={}"
    assert described.format("carol", 8_192) in desk.run(Tool.CONFIGS, "--describe", *user)
    everybody = desk.run(Tool.CONFIGS, "--describe", "--entity-type", "users")
    assert described.format("carol", 8_192) in everybody
    assert described.format("alice", 4_096) in everybody
    desk.run(Tool.CONFIGS, "--alter", "--delete-config", "SCRAM-SHA-256", *user)
    with pytest.raises(ToolError, match="SaslAuthenticationException"):
        desk.run(Tool.TOPICS, "--list", user="carol")
