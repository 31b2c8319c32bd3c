"""Security settings in three spellings: each name reaches its setting, and no error shows a secret."""

import pickle
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, Producer
from kohort.client.consumer.settings import consumer_settings
from kohort.client.errors import SettingError
from kohort.client.producer.settings import ProducerSettings
from kohort.client.security.names import (
    OTHER_NAMES,
    WITHOUT_EFFECT,
    is_secret_name,
    is_security_name,
    security_arguments,
)
from kohort.client.security.sasl import UnsecuredToken
from kohort.client.security.settings import SECRETS, SecuritySettings
from kohort.security.secret import Secret

CANARY = "canary-7c1f"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PAGE = Path(__file__).parents[4] / "docs" / "howto" / "secured-cluster.md"


def from_text(**given: str) -> dict[str, object]:
    return security_arguments({name.replace("_", "."): value for name, value in given.items()}, is_text=True)


@pytest.mark.parametrize(
    ("field", "name"), [(field, name) for field, names in OTHER_NAMES.items() for name in names]
)
def test_every_other_name_reaches_its_setting(field: str, name: str) -> None:
    types = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    value = {"ssl_check_hostname": "https", "sasl_oauth_extensions": "a=b"}.get(field, "x")
    expected: object = {"ssl_check_hostname": True, "sasl_oauth_extensions": {"a": "b"}}.get(field, value)
    for spelled in (name, name.replace(".", "_"), name.upper()):
        assert security_arguments({**types, spelled: value}, is_text=False) == {field: expected}
    assert is_security_name(name)
    assert is_secret_name(name) == (field in SECRETS)


def test_the_page_has_every_name() -> None:
    page = PAGE.read_text()
    names = [each.name for each in fields(SecuritySettings)] + [
        n for all_ in OTHER_NAMES.values() for n in all_
    ]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_what_only_java_needs_has_no_effect() -> None:
    assert security_arguments(dict.fromkeys(WITHOUT_EFFECT, "x"), is_text=True) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"ssl_enabled_protocols": "TLSv1.2,TLSv1.3"},
            {"ssl_min_version": "TLSv1.2", "ssl_max_version": "TLSv1.3"},
        ),
        ({"ssl_enabled_protocols": "TLSv1.3"}, {"ssl_min_version": "TLSv1.3", "ssl_max_version": "TLSv1.3"}),
        ({"ssl_endpoint_identification_algorithm": ""}, {"ssl_check_hostname": False}),
        ({"ssl_endpoint_identification_algorithm": "none"}, {"ssl_check_hostname": False}),
        ({"ssl_check_hostname": "false"}, {"ssl_check_hostname": False}),
        ({"ssl_ca_location": "probe"}, {}),
        ({"enable_ssl_certificate_verification": "true"}, {}),
    ],
)
def test_values_that_are_written_otherwise_are_understood(given: dict[str, str], expected: object) -> None:
    assert from_text(**given) == expected


@pytest.mark.parametrize("module", [SCRAM, f"kafkashaded.{SCRAM}", "ScramLoginModule"])
def test_jaas_text_gives_user_and_password(module: str) -> None:
    text = f'{module} required username="alice" password="{CANARY}";'
    found = security_arguments({"sasl.jaas.config": text, "sasl.mechanism": "scram-sha-512"}, is_text=False)
    assert found == {
        "sasl_mechanism": "scram-sha-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": Secret(CANARY),
    }


def test_jaas_text_gives_the_mechanism_where_there_is_only_one() -> None:
    plain = from_text(sasl_jaas_config="PlainLoginModule required username=a password=b;")
    assert plain["sasl_mechanism"] == "PLAIN"
    token = from_text(
        sasl_jaas_config="OAuthBearerLoginModule required clientId=i clientSecret='env:S' scope=s "
        "extension_x=y;"
    )
    assert token == {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_client_id": "i",
        "sasl_oauth_client_secret": Secret.env("S"),
        "sasl_oauth_scope": "s",
        "sasl_oauth_extensions": {"x": "y"},
    }
    unsecured = from_text(
        sasl_jaas_config="OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=bob;"
    )
    assert unsecured["sasl_oauth_token_provider"] == UnsecuredToken("bob")


def test_secrets_of_text_may_be_in_files_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jaas").write_text(
        f'PlainLoginModule required username="a" password="@{tmp_path}/password";\n'
    )
    (tmp_path / "password").write_text(CANARY)
    (tmp_path / "ca").write_text("some PEM")
    monkeypatch.setenv("A_KEY", "key")
    found = from_text(
        sasl_jaas_config=f"@{tmp_path}/jaas", ssl_key_pem="${env:A_KEY}", ssl_ca_pem=f"@{tmp_path}/ca"
    )
    revealed = {name: value.reveal() if isinstance(value, Secret) else value for name, value in found.items()}
    assert revealed == {
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "a",
        "sasl_plain_password": CANARY,
        "ssl_keydata": "key",
        "ssl_cadata": "some PEM",
    }


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ssl_keystore_password": CANARY}, "ssl.keystore.password is not supported"),
        ({"ssl_truststore_location": "x"}, "ssl.truststore.type JKS is not supported"),
        ({"ssl_keystore_type": "PKCS12"}, "openssl pkcs12"),
        ({"enable_ssl_certificate_verification": "false"}, "pose as the broker"),
        ({"ssl_enabled_protocols": "TLSv1.1,TLSv1.2"}, "list of TLSv1.2, TLSv1.3"),
        ({"ssl_enabled_protocols": ""}, "list of TLSv1.2, TLSv1.3"),
        ({"ssl_endpoint_identification_algorithm": "ldap"}, "https"),
        ({"ssl_check_hostname": "maybe"}, "true or false"),
        ({"sasl_login_callback_handler_class": "com.example.Mine"}, "Java code"),
        ({"sasl_pasword": CANARY}, "did you mean sasl_password"),
        ({"sasl_password": CANARY, "sasl_plain_password": "other"}, "two names of one setting"),
        ({"sasl_oauthbearer_extensions": CANARY}, "NAME=VALUE"),
        ({"sasl_jaas_config": f"{SCRAM} required username=a password={CANARY}"}, "semicolon"),
        ({"sasl_jaas_config": f"{SCRAM} required password={CANARY};"}, "no username"),
        ({"sasl_jaas_config": f"{SCRAM} required username=a password={CANARY} tokenauth=true;"}, "tokens"),
        (
            {"sasl_jaas_config": f"Krb5LoginModule required keyTab={CANARY};"},
            "Krb5LoginModule is not supported",
        ),
        (
            {
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": f"{SCRAM} required username=a password={CANARY};",
            },
            "does not fit",
        ),
    ],
)
def test_mistakes_are_refused_without_showing_the_secret(given: dict[str, str], why: str) -> None:
    with pytest.raises(SettingError, match=why) as refused:
        from_text(**given)
    assert CANARY not in str(refused.value)


SASL: dict[str, Any] = {
    "security_protocol": "sasl_ssl", "sasl_mechanism": "plain", "sasl_plain_username": "a",
    "sasl_plain_password": CANARY,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"security_protocol": "TLS"}, "one of PLAINTEXT, SSL"),
        ({"ssl_cafile": "x"}, "ssl_cafile has no effect with security_protocol=PLAINTEXT"),
        ({"sasl_plain_password": CANARY}, "sasl_plain_password has no effect"),
        ({"security_protocol": "SSL", "sasl_mechanism": "PLAIN"}, "sasl_mechanism has no effect"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        (SASL | {"sasl_mechanism": "GSSAPI"}, "Kerberos"),
        (SASL | {"sasl_mechanism": "DIGEST-MD5"}, "one of PLAIN"),
        (SASL | {"sasl_plain_username": None}, "PLAIN needs sasl_plain_username"),
        (SASL | {"sasl_mechanism": "OAUTHBEARER"}, "exactly one of"),
        (SASL | {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": CANARY,
                 "sasl_oauth_token_endpoint": "https://x"}, "more than one"),
        (SASL | {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_endpoint": "https://x"}, "client_id"),
        (SASL | {"ssl_keydata": CANARY}, "key without a certificate"),
        (SASL | {"ssl_cafile": "x", "ssl_cadata": "y"}, "ssl_cafile and ssl_cadata are both set"),
        (SASL | {"ssl_min_version": "TLSv1"}, "one of TLSv1.2"),
        (SASL | {"ssl_min_version": "TLSv1.3", "ssl_max_version": "TLSv1.2"}, "higher"),
        (SASL | {"sasl_plain_password": CANARY.encode()}, "it is text or a Secret"),
        (SASL | {"ssl_cafile": 5}, "it is text or None"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_together_are_refused(given: dict[str, object], why: str) -> None:
    makers: list[Callable[..., object]] = [Consumer, Producer, lambda **given: Admin("host:9092", **given)]
    for make in makers:
        with pytest.raises(SettingError, match=why) as refused:
            make(**given)
        assert CANARY not in str(refused.value)


def test_no_representation_of_settings_shows_a_secret() -> None:
    """Security scenario 58. See security 9."""
    given = SASL | {"ssl_certdata": "x", "ssl_keydata": CANARY, "ssl_password": CANARY}
    for settings in (
        consumer_settings(given),
        ProducerSettings.from_kwargs(**given),
        SecuritySettings(**given),
    ):
        assert CANARY not in repr(settings)
        assert CANARY not in str(settings)
        assert settings.secret("sasl_plain_password") == Secret(CANARY)
    assert pickle.loads(pickle.dumps(SecuritySettings(**SASL))) == SecuritySettings(**SASL)


def test_clients_take_the_names_of_librdkafka_and_java() -> None:
    given: dict[str, Any] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "a",
        "sasl.password": CANARY,
    }
    for client in (Consumer(**given), Producer(**given)):
        assert CANARY not in repr(client)
    assert consumer_settings(given).sasl_plain_username == "a"
