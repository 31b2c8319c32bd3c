"""What errors say."""

from kohort.client.addresses import Address
from kohort.client.errors import ApiNotServedError, BrokerError, NoBrokerError, UnknownTopicError
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.wire.apis import ApiKey, api_spec

HERE = Address("127.0.0.1", 9092)


def test_a_refusal_says_what_was_asked_the_brokers_words_the_code_and_what_to_do() -> None:
    error = BrokerError(36, "create topic 'a'", "Topic 'a' already exists.")
    assert str(error) == (
        "cannot create topic 'a': Topic 'a' already exists [TOPIC_ALREADY_EXISTS] "
        "(choose another name, or alter the topic that is there)"
    )
    assert error.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert not error.retriable


def test_a_code_nobody_here_knows_is_shown_as_a_number_and_not_retried() -> None:
    error = BrokerError(4711, "write")
    assert str(error) == "cannot write: error 4711"
    assert not error.retriable


def test_a_passing_code_may_be_retried_but_an_unknown_topic_is_for_the_caller_to_wait_for() -> None:
    assert BrokerError(ErrorCode.NOT_CONTROLLER, "x").retriable
    assert BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "x").retriable
    assert not UnknownTopicError("t").retriable


def test_a_missing_api_is_named_with_both_ranges() -> None:
    spec = api_spec(ApiKey.LIST_GROUPS)
    error = ApiNotServedError(spec, spec.versions, Versions(7, 9), HERE)
    text = "ListGroups (API 16) in version 0-5 is needed, and 127.0.0.1:9092 serves versions 7-9"
    assert str(error).startswith(text)
    assert "does not serve it" in str(ApiNotServedError(spec, spec.versions, None, HERE))


def test_when_no_broker_answers_each_address_and_each_reason_is_named_once() -> None:
    error = NoBrokerError([HERE, Address("b", 1)], ["connection refused", "connection refused"])
    assert str(error) == (
        "cannot reach a broker at 127.0.0.1:9092, b:1: connection refused "
        "(start one with `kohort up`, or name the address of one that runs)"
    )
