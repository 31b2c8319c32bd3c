"""Regular expressions of subscriptions: what they match, and what is none, in Kafka's words."""

import pytest

from kohort.broker.expressions import resolve, wrong_with
from kohort.model.ids import TopicName

NAMES = [TopicName(name) for name in ("foo", "foobar", "xfoo", "Foo", "__consumer_offsets", "a.b")]


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        ("foo.*", ["foo", "foobar"]),
        ("foo", ["foo"]),
        ("oo", []),
        ("(?i)foo", ["foo", "Foo"]),
        ("foo|xfoo", ["foo", "xfoo"]),
        ("foo$", ["foo"]),
        ("__.*", ["__consumer_offsets"]),
        (r"a\.b", ["a.b"]),
        (".*", NAMES),
        (r"\Qa.b\E", ["a.b"]),
    ],
)
def test_an_expression_matches_whole_names(expression: str, matched: list[str]) -> None:
    assert wrong_with(expression) is None
    assert resolve([expression], NAMES) == ((expression, tuple(matched)),)


# Recorded: what Kafka 4.2 answers (consumer-refusals, consumer-regex), and other errors of RE2/J.
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a(", "missing closing )"),
        ("[", "missing closing ]"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("(?<!a)b", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        ("*a", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
    ],
)
def test_what_is_no_expression_is_refused_in_the_words_of_kafka(expression: str, reason: str) -> None:
    assert wrong_with(expression) == reason


def test_an_expression_that_is_wrong_is_left_out_of_what_is_resolved() -> None:
    assert resolve(["(", "foo"], NAMES) == (("foo", (TopicName("foo"),)),)


def test_an_expression_that_needs_too_much_memory_is_refused() -> None:
    assert wrong_with("((\\pL{500})|x){2}" * 30) == "pattern too large - compile failed"


def test_an_expression_that_ruins_a_backtracking_engine_is_matched_in_one_pass() -> None:
    """With Python's own ``re`` this does not end."""
    names = [TopicName("a" * 249)] * 100
    assert resolve(["(a|a)*(a|a)*(a*)*b"], names) == (("(a|a)*(a|a)*(a*)*b", ()),)
