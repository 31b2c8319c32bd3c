"""``--command-config``: files of Kafka's tools, as far as our clients know their settings."""

from pathlib import Path

import pytest

from kohort.cli.command_config import client_options, read_properties, settings_texts
from kohort.cli.settings_text import InputError
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.settings import ClientOptions

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


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("security.protocol=SASL_SSL", "security.protocol=SASL_SSL"),
        ("sasl.mechanism=PLAIN", "sasl.mechanism"),
        ("ssl.truststore.location=x", "ssl.truststore.location"),
    ],
)
def test_security_that_our_clients_do_not_have_is_refused(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InputError, match=f"{named}.*do not speak TLS or SASL yet"):
        client_options(written(tmp_path, text), DEFAULTS)


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
