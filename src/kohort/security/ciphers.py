"""Names of cipher suites: IANA's, which Java uses, as those of OpenSSL."""

import re

_REST = (("AES_128", "AES128"), ("AES_256", "AES256"), ("_CBC", ""), ("POLY1305_SHA256", "POLY1305"))


def openssl_ciphers(suites: str) -> str:
    """A list for ``SSLContext.set_ciphers``, of names of either kind with commas or colons between.

    Suites of TLS 1.3 are left out: OpenSSL has a list of its own for them, which Python does not set. Empty
    if nothing else is named.
    """
    names = [name.strip() for name in re.split("[,:]", suites)]
    return ":".join(_openssl_name(name) for name in names if name and not _is_of_tls_1_3(name))


def _is_of_tls_1_3(name: str) -> bool:
    return name.startswith("TLS_") and "_WITH_" not in name


def _openssl_name(name: str) -> str:
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    for iana, openssl in _REST:
        cipher = cipher.replace(iana, openssl)
    named = cipher if exchange == "RSA" else f"{exchange}_{cipher}"  # OpenSSL leaves RSA by itself out
    return named.replace("_", "-")
