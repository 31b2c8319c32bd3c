"""Which listeners a broker opens to other machines only with ``--insecure`` (security L8)."""

import pytest

from kohort.broker.endpoints import check_risks
from kohort.model.errors import KohortError
from kohort.security.listeners import NamedAddress, build_listeners

MECHANISMS = "sasl.enabled.mechanisms"
TOKENS = {MECHANISMS: "OAUTHBEARER", "sasl.oauthbearer.expected.issuer": "https://issuer.example"}
PLAIN, SCRAM = {MECHANISMS: "SCRAM-SHA-256,PLAIN"}, {MECHANISMS: "SCRAM-SHA-256,SCRAM-SHA-512"}
NONE: dict[str, str] = {}


def check(protocol: str, settings: dict[str, str], host: str = "0.0.0.0", *, insecure: bool = False) -> None:
    advertised = [NamedAddress(protocol, "broker.example", 0)]
    check_risks(
        build_listeners([NamedAddress(protocol, host, 0)], advertised, settings), settings, insecure=insecure
    )


@pytest.mark.parametrize("authorizer", [{}, {"authorizer": "acl"}], ids=["no authorizer", "authorizer"])
@pytest.mark.parametrize(
    ("protocol", "settings", "when"),
    [
        ("PLAINTEXT", NONE, "with an authorizer"),
        ("SSL", NONE, "never"),
        ("SASL_PLAINTEXT", PLAIN, "always"),
        ("SASL_PLAINTEXT", {f"listener.name.sasl_plaintext.{MECHANISMS}": "PLAIN"}, "always"),
        ("SASL_PLAINTEXT", TOKENS, "always"),
        ("SASL_PLAINTEXT", SCRAM, "never"),
        ("SASL_SSL", PLAIN, "never"),
        ("SASL_SSL", TOKENS, "never"),
        ("SASL_SSL", {MECHANISMS: "OAUTHBEARER"}, "always"),  # every token would do
        ("SASL_SSL", TOKENS | {"kohort.oauthbearer.unsecured": "true"}, "always"),
    ],
)
def test_what_exposes_passwords_tokens_or_rights_to_other_machines_needs_insecure(
    protocol: str, settings: dict[str, str], when: str, authorizer: dict[str, str]
) -> None:
    settings = settings | authorizer
    if when == "always" or (when == "with an authorizer" and authorizer):
        with pytest.raises(KohortError) as refused:
            check(protocol, settings)
        assert "--insecure" in refused.value.hint
    else:
        check(protocol, settings)
    check(protocol, settings, insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize(
    ("protocol", "settings"),
    [("PLAINTEXT", {"authorizer": "acl"}), ("SASL_PLAINTEXT", PLAIN), ("SASL_PLAINTEXT", TOKENS)],
)
def test_on_a_loopback_address_the_same_listeners_need_nothing(
    protocol: str, settings: dict[str, str], host: str
) -> None:
    check(protocol, settings, host)


@pytest.mark.parametrize(
    ("protocol", "settings", "warned"),
    [("PLAINTEXT", NONE, True), ("SSL", NONE, False), ("SASL_PLAINTEXT", SCRAM, False)],
)
def test_a_listener_without_any_security_that_others_reach_is_named_in_a_warning(
    protocol: str, settings: dict[str, str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check(protocol, settings)
    assert ("can read, write and delete everything" in caplog.text) is warned
