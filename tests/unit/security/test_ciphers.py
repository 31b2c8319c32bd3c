"""Names of cipher suites."""

import ssl

import pytest

from kohort.security.ciphers import openssl_ciphers

# Java's names for suites of TLS 1.2 that are on by default there, and OpenSSL's.
JAVAS = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}


@pytest.mark.parametrize("name", JAVAS)
def test_javas_names_are_those_of_openssl(name: str) -> None:
    assert openssl_ciphers(name) == JAVAS[name]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{openssl_ciphers(name)}:@SECLEVEL=0")
    assert JAVAS[name] in [cipher["name"] for cipher in context.get_ciphers()]


@pytest.mark.parametrize(
    ("suites", "names"),
    [
        ("TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_128_CBC_SHA,AES256-SHA", "AES128-SHA:AES256-SHA"),
        ("ECDHE-RSA-AES128-SHA:HIGH", "ECDHE-RSA-AES128-SHA:HIGH"),
        ("TLS_AES_256_GCM_SHA384", ""),
    ],
)
def test_lists_may_have_names_of_both_kinds(suites: str, names: str) -> None:
    assert openssl_ciphers(suites) == names
