from dataclasses import fields
from typing import Any

import pytest

from kohort.client.producer.settings import ProducerSettings, SettingNames
from kohort.client.settings import SettingError
from kohort.records.compression import Codec


def test_keyword_arguments_and_settings_have_the_same_names() -> None:
    assert [one.name for one in fields(ProducerSettings)] == list(SettingNames.__annotations__)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("linger_msec", "did you mean linger_ms?"),
        ("linger.ms", "did you mean linger_ms?"),
        ("buffer_memory", "did you mean max_buffered_bytes?"),
        ("compression", "did you mean compression_type?"),
        ("zzz", "there are security_protocol"),
        ("transactional.id", "there are no transactions"),
        ("retries", "delivery_timeout_ms limits"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_one_that_was_meant(name: str, hint: str) -> None:
    settings: Any = {name: 1}

    with pytest.raises(SettingError, match=f"no setting '{name}'") as refused:
        ProducerSettings.from_kwargs(**settings)

    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"acks": 2}, "acks cannot be 2"),
        ({"acks": True}, "acks cannot be True"),
        ({"compression_type": "brotli"}, "compression_type cannot be 'brotli'"),
        ({"batch_size": 0}, "batch_size cannot be 0"),
        ({"linger_ms": -1}, "linger_ms cannot be -1"),
        ({"max_request_size": "1MB"}, "max_request_size cannot be '1MB'"),
        ({"enable_idempotence": True, "acks": 1}, 'needs acks="all"'),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"delivery_timeout_ms": 1_000}, "must be at least linger_ms"),
        ({"enable_idempotence": "false"}, "enable_idempotence cannot be 'false'"),
        ({"key_serializer": "utf-8"}, "it is a function or None"),
        ({"client_id": None}, "it is text"),
        ({"bootstrap_servers": 9092}, "it is text or a list of text"),
    ],
)
def test_values_that_make_no_sense_are_refused(settings: Any, text: str) -> None:  # noqa: ANN401 (wrong on purpose)
    with pytest.raises(SettingError, match=text):
        ProducerSettings.from_kwargs(**settings)


def test_idempotence_is_on_unless_acks_rule_it_out() -> None:
    assert ProducerSettings().is_idempotent
    assert not ProducerSettings(acks=1).is_idempotent
    assert not ProducerSettings(acks=0).is_idempotent
    assert not ProducerSettings(max_in_flight_requests_per_connection=6).is_idempotent
    assert not ProducerSettings(enable_idempotence=False).is_idempotent


def test_settings_know_how_they_look_elsewhere() -> None:
    settings = ProducerSettings(bootstrap_servers=["a:1", "b:2"], compression_type="zstd", max_block_ms=5)

    assert settings.bootstrap == "a:1,b:2"
    assert settings.codec is Codec.ZSTD
    assert settings.acks_on_wire == -1
    assert settings.client_options.api_timeout_ms == 5
