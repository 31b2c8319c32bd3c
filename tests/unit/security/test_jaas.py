"""The text of ``sasl.jaas.config``: what it may look like, and that no error quotes a secret."""

import pytest

from kohort.security.jaas import JaasError, parse_jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{SCRAM} required username="alice" password="s3;cret = x";', {"password": "s3;cret = x"}),
        (f"{SCRAM} required username='alice' password='a\"b';", {"password": 'a"b'}),
        (f'{SCRAM} REQUIRED username=alice password="a\\"b\\\\c\\n\\101";', {"password": 'a"b\\c\nA'}),
        (f"{SCRAM} optional username=alice password=1234;", {"password": "1234"}),
        (
            f'{SCRAM} required // a comment\n username=alice /* another */ password="//no";',
            {"password": "//no"},
        ),
        (f'{SCRAM}\nrequired\n  username="alice"\n  password="" ;\n', {"password": ""}),
    ],
)
def test_options_are_read_with_quotes_escapes_and_comments(text: str, options: dict[str, str]) -> None:
    """Security scenario 57. See security 9."""
    assert parse_jaas(text).options == {"username": "alice"} | options


@pytest.mark.parametrize(
    "module", [SCRAM, f"kafkashaded.{SCRAM}", "ScramLoginModule", "a.b$ScramLoginModule"]
)
def test_a_module_is_known_by_the_last_part_of_its_name(module: str) -> None:
    assert parse_jaas(f"{module} required;").name == "ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a class"),
        (SCRAM, "expected a class"),
        (f"{SCRAM} username=canary;", "expected one of required"),
        (f"{SCRAM} required username canary;", "expected NAME=VALUE"),
        (f"{SCRAM} required username=;", "expected a value behind username="),
        (f"{SCRAM} required password=two canary;", "expected NAME=VALUE"),
        (f'{SCRAM} required password="canary"', "semicolon"),
        (f'{SCRAM} required password="canary;', "quote that is not closed"),
        (f"{SCRAM} required password=can#ary;", "must be quoted"),
        (f'{SCRAM} required "canary"=x;', "name of an option"),
        ('"canary" required password="canary";', "name of a log-in module"),
        (f"{SCRAM} required password=canary; {SCRAM} required;", "more than one entry"),
    ],
)
def test_text_that_is_no_entry_is_refused_without_its_values(text: str, why: str) -> None:
    with pytest.raises(JaasError, match=why) as refused:
        parse_jaas(text)
    assert "canary" not in str(refused.value)


def test_the_representation_has_names_only() -> None:
    assert repr(parse_jaas(f'{SCRAM} required password="canary";')) == f"JaasEntry({SCRAM}, password)"
