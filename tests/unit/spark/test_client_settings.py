"""Settings of the Java consumer, given as ``kafka.*`` options."""

import pickle
from pathlib import Path

import pytest

from kohort.client.consumer.settings import consumer_settings
from kohort.spark.client_settings import client_settings
from kohort.spark.errors import OptionError
from kohort.spark.option_table import ACCEPTED, REFUSED, SETTINGS


def test_settings_with_a_meaning_become_those_of_our_client() -> None:
    given = {"session.timeout.ms": "9000", "check.crcs": "False", "client.id": "me"}
    settings = client_settings(given)
    assert settings == {"session_timeout_ms": 9_000, "check_crcs": False, "client_id": "me"}
    assert consumer_settings(settings).session_timeout_ms == 9_000


def test_every_one_of_them_is_a_setting_of_our_consumer() -> None:
    values = {"int": 50_000, "flag": True, "text": "read_committed"}
    ours = {each.ours: values[each.kind] for each in SETTINGS.values()}
    ours |= {"partition_assignment_strategy": ("range",), "group_protocol": "classic"}
    assert consumer_settings(ours | {"group_remote_assignor": None}).check_crcs


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_settings_without_a_meaning_here_are_taken_and_left_out(name: str) -> None:
    assert client_settings({name: "7"}) == {}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_connector_refuses_is_refused_with_advice(name: str) -> None:
    with pytest.raises(OptionError, match=f"kafka.{name} is not supported") as refused:
        client_settings({name: "x"})
    assert refused.value.hint


def test_security_settings_are_those_of_java_and_secrets_are_read_on_the_driver(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("canary\n")
    given = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "ca.pem",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'a.ScramLoginModule required username="alice" password="@{password}";',
        "sasl.oauthbearer.extensions": "a=b",
    }
    settings = client_settings(given)
    password.unlink()
    assert settings["sasl_plain_password"].reveal() == "canary"
    assert "canary" not in repr(settings)
    assert hash(frozenset(settings.items()))
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert consumer_settings(settings).ssl_cafile == "ca.pem"


def test_secrets_stay_in_their_files_and_variables_if_executors_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security trap 18. The paths and variables may be those of executors only."""
    password = tmp_path / "password"
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": f'a.PlainLoginModule required username="alice" password="@{password}";',
    }
    with pytest.raises(OptionError, match="cannot read the file"):
        client_settings(given)
    shipped = pickle.dumps(client_settings(given, secrets_on="executor"))
    password.write_text("canary")
    assert pickle.loads(shipped)["sasl_plain_password"].reveal() == "canary"
    assert b"canary" not in shipped
    given["sasl.jaas.config"] = 'a.PlainLoginModule required username="alice" password="env:DOORS_SECRET";'
    shipped = pickle.dumps(client_settings(given, secrets_on="executor"))
    monkeypatch.setenv("DOORS_SECRET", "other")
    assert pickle.loads(shipped)["sasl_plain_password"].reveal() == "other"
    with pytest.raises(OptionError, match=r"kohort\.secrets\.on cannot be 'task'"):
        client_settings(given, secrets_on="task")


def test_names_with_underscores_are_the_same_settings() -> None:
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    given |= {"sasl_plain_username": "alice", "sasl_plain_password": "canary"}
    assert consumer_settings(client_settings(given)).sasl_plain_username == "alice"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ssl.keystore.location": "x"}, "openssl pkcs12"),
        ({"sasl.mechanism": "PLAIN"}, "sasl_mechanism has no effect"),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": "PlainLoginModule password=canary"}, "jaas"),
        ({"security.protocol": "SSL", "ssl.key.pem": "@/no/such/file"}, "key without a certificate"),
    ],
)
def test_a_mistake_in_security_settings_is_refused_without_the_secret(
    given: dict[str, str], why: str
) -> None:
    with pytest.raises(OptionError, match=why) as refused:
        client_settings(given)
    assert "canary" not in str(refused.value)


def test_a_setting_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"did you mean kafka\.request\.timeout\.ms"):
        client_settings({"request.timeout": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request.timeout.ms", "long"),
        ("check.crcs", "1"),
        ("isolation.level", "serializable"),
        ("group.protocol", "share"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"kafka.{name} cannot be"):
        client_settings({name: value})


def test_assignors_go_by_our_names_and_by_those_of_kafkas_classes() -> None:
    given = "org.apache.kafka.clients.consumer.RangeAssignor, cooperative-sticky"
    settings = client_settings({"partition.assignment.strategy": given})
    assert settings["partition_assignment_strategy"] == ("range", "cooperative-sticky")
