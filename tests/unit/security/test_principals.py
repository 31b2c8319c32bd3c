"""The rules of ``ssl.principal.mapping.rules`` (security 2)."""

import pytest

from kohort.security.principals import MappingRuleError, NoRuleMatchesError, PrincipalMapper

DN = "CN=Duke,OU=Server Users,O=Acme,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", DN),
        ("DEFAULT", DN),
        ("RULE:^CN=(.*?),OU=Server Users.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=Server Users.*$/$1@$2/", "Duke@$2"),
        ("RULE:^CN=(.*?),OU=Server Users.*$/$12/", "Duke2"),
        ("RULE:^CN=(.*?),OU=Server Users.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=Server Users.*$/$1/U", "DUKE"),
        ("RULE:^CN=x.*$/x/, RULE:^.*$/second/, DEFAULT", "second"),
        (" , RULE:^CN=x.*$/x/ ,, DEFAULT", DN),
        ("RULE:^CN=(\\w+),.*$/$1\\/admin/", "Duke/admin"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules: str, name: str) -> None:
    """Security scenario 10. See security 9."""
    assert PrincipalMapper(rules).principal(DN) == f"User:{name}"


@pytest.mark.parametrize("rules", ["RULE:^CN=Duke$/x/", "RULE:CN=Duke/x/", "RULE:^O=.*$/x/"])
def test_a_name_that_no_rule_takes_is_refused(rules: str) -> None:
    with pytest.raises(NoRuleMatchesError, match="no rule of"):
        PrincipalMapper(rules).principal(DN)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(NoRuleMatchesError, match="characters"):
        PrincipalMapper("DEFAULT").principal("C" * 4_097)


@pytest.mark.parametrize(
    "rules",
    ["default", "RULE:", "RULE:x", "RULE:x/y", "RULE:x/y/Z", "RULE:(/y/", "RULE:\\p{L}/y/", "RULE:x*+/y/"],
)
def test_rules_that_cannot_be_read_stop_the_start(rules: str) -> None:
    with pytest.raises(MappingRuleError):
        PrincipalMapper(rules)
