"""``--command-config``: files of Kafka's tools, as far as our clients know their settings."""

from pathlib import Path

import pytest

from kohort.cli.command_config import client_options, read_properties, settings_texts
from kohort.cli.settings_text import InputError
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.settings import ClientOptions, SettingError
from kohort.security.secret import Secret

DEFAULTS = ClientOptions(client_id="kohort-cli")


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(text)
    return file


def test_a_file_is_read_as_java_reads_properties(tmp_path: Path) -> None:
    text = r"""
# a comment
! another
client.id=me
 spaced.name  =  a value
colon:yes
blank yes
long.one=a,\
    b
caf\u00e9=\t=\\
empty=
alone
"""
    assert read_properties(written(tmp_path, text)) == {
        "client.id": "me",
        "spaced.name": "a value",
        "colon": "yes",
        "blank": "yes",
        "long.one": "a,b",
        "café": "\t=\\",
        "empty": "",
        "alone": "",
    }


def test_known_settings_have_an_effect_and_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "client.id=me\nrequest.timeout.ms=7\ndefault.api.timeout.ms=8\nbootstrap.servers=x:1\n"
        "socket.connection.setup.timeout.ms=9\nretry.backoff.ms=1\nretry.backoff.max.ms=2\n"
        "security.protocol=PLAINTEXT\nmetrics.recording.level=DEBUG\n"
    )
    file = written(tmp_path, text)
    assert client_options(file, DEFAULTS) == ClientOptions(
        client_id="me",
        request_timeout_ms=7,
        api_timeout_ms=8,
        connect_timeout_ms=9,
        retry_backoff_ms=1,
        retry_backoff_max_ms=2,
    )
    assert capsys.readouterr().err.endswith(": without effect here: metrics.recording.level\n")


def test_without_a_file_nothing_changes() -> None:
    assert client_options(None, DEFAULTS) is DEFAULTS


def test_security_settings_of_java_have_an_effect(tmp_path: Path) -> None:
    password = written(tmp_path, "canary\n").rename(tmp_path / "password")
    file = written(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="alice" password="@{password}";\n',
    )
    security = client_options(file, DEFAULTS).security
    assert security is not None
    assert (security.settings.security_protocol, security.settings.sasl_plain_username) == (
        "SASL_PLAINTEXT",
        "alice",
    )
    assert security.settings.secret("sasl_plain_password") == Secret.file(password)
    assert "canary" not in repr(security.settings) + repr(security)


def test_properties_of_the_command_line_win_and_secrets_in_it_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=bob\n")
    given = ["sasl.username=alice", "sasl.password=canary", "ssl.key.password=env:HOME", "client.id=me"]
    options = client_options(file, DEFAULTS, given)
    assert options.security is not None
    assert (options.client_id, options.security.settings.sasl_plain_username) == ("me", "alice")
    said = capsys.readouterr().err
    assert "-X sasl.password: other users can see it" in said
    assert "canary" not in said
    assert "ssl.key.password" not in said


def test_a_mistake_in_security_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="sasl_mechanism"):
        client_options(written(tmp_path, "security.protocol=SASL_SSL"), DEFAULTS)
    with pytest.raises(InputError, match="is not NAME=VALUE"):
        client_options(None, DEFAULTS, ["ssl"])


def test_a_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"request\.timeout\.ms is a number of milliseconds, not '5s'"):
        client_options(written(tmp_path, "request.timeout.ms=5s"), DEFAULTS)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: cannot read it: No such file or directory"):
        client_options(tmp_path / "nowhere", DEFAULTS)


def test_consumers_and_producers_take_the_settings_they_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "fetch.min.bytes=7\nlinger.ms=8\nbootstrap.servers=x:1\n")
    assert settings_texts(file, ConsumerSettings) == ["fetch.min.bytes=7"]
    assert capsys.readouterr().err.endswith(": without effect here: linger.ms\n")
    assert settings_texts(None, ConsumerSettings) == []
