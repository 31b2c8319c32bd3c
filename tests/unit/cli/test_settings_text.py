"""``-X NAME=VALUE``."""

import pytest

from kohort.cli.settings_text import InputError, parse_settings
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.producer import ProducerSettings


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("max_poll_records=10", {"max_poll_records": 10}),
        ("max.poll.records = 1_000", {"max_poll_records": 1_000}),
        ("check.crcs=false", {"check_crcs": False}),
        ("client_id=a=b", {"client_id": "a=b"}),
        ("bootstrap_servers=a:1,b:2", {"bootstrap_servers": "a:1,b:2"}),
        (
            "partition.assignment.strategy=sticky, range",
            {"partition_assignment_strategy": ["sticky", "range"]},
        ),
        ("nonsense=1", {"nonsense": "1"}),  # refused by the consumer, with a suggestion
    ],
)
def test_text_becomes_what_a_consumer_takes(text: str, setting: dict[str, object]) -> None:
    assert parse_settings([text], ConsumerSettings) == setting


def test_text_becomes_what_a_producer_takes() -> None:
    texts = ["acks=1", "compression-type=zstd", "enable.idempotence=no", "linger.ms=0"]
    assert parse_settings(texts, ProducerSettings) == {
        "acks": 1,
        "compression_type": "zstd",
        "enable_idempotence": False,
        "linger_ms": 0,
    }
    assert parse_settings(["acks=all"], ProducerSettings) == {"acks": "all"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_poll_records", "is not NAME=VALUE"),
        ("max_poll_records=many", "must be a whole number, not 'many'"),
        ("check_crcs=perhaps", "must be true or false, not 'perhaps'"),
        ("key_deserializer=json.loads", "cannot be given as text"),
        ("interceptors=x", "cannot be given as text"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_settings([text], ConsumerSettings)
