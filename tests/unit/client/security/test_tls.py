"""TLS of a client: what a bad certificate is called, and which files and texts make a context."""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.scripted import HASTY, on_loop

from kohort.client.addresses import Address
from kohort.client.connection import open_connection
from kohort.client.errors import SettingError, TlsError
from kohort.client.security.entry import ClientSecurity
from kohort.client.security.settings import SecuritySettings
from kohort.client.settings import secured
from kohort.security.certs import DevAuthority


@pytest.fixture(scope="module")
def authority() -> DevAuthority:
    return DevAuthority(datetime.now(UTC))


async def enter(chain: Path, **settings: Any) -> None:  # noqa: ANN401 (any setting)
    """Connect to a listener with this certificate, which never gets further than TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        options = secured(HASTY, {"security_protocol": "SSL", **settings}, is_text=False)
        await open_connection(Address("127.0.0.1", port), options)


@pytest.mark.parametrize(
    ("hosts", "days", "trusts", "why"),
    [
        (["localhost"], 1, True, "is not for the address 127.0.0.1"),
        (["127.0.0.1"], -1, True, "has expired"),
        (["127.0.0.1"], 1, False, "signed by an unknown authority"),
    ],
)
def test_a_bad_certificate_is_named_at_once(
    authority: DevAuthority, tmp_path: Path, hosts: list[str], days: int, trusts: bool, why: str
) -> None:
    """Security scenario 17. See security 9."""
    chain = tmp_path / "broker.pem"
    chain.write_text(authority.issue("broker", hosts, days=days))
    trusted = authority if trusts else DevAuthority(datetime.now(UTC))

    @on_loop
    async def run() -> None:
        with pytest.raises(TlsError, match=why) as refused:
            await enter(chain, ssl_cadata=trusted.certificate)
        assert not refused.value.retriable

    run()


def made(**settings: Any) -> ClientSecurity:  # noqa: ANN401 (any setting)
    return ClientSecurity(SecuritySettings(security_protocol="SSL", **settings))


def spellings(text: str) -> Iterator[str]:
    yield text
    yield text.replace("\n", " ")
    yield text.replace("\n", "\\n")
    yield f"a note before\n{text}and one behind"


def test_pem_text_is_taken_also_without_its_line_breaks(authority: DevAuthority) -> None:
    key, end, chain = authority.issue("client").partition("-----END PRIVATE KEY-----\n")
    for trust, own, secret in zip(
        spellings(authority.certificate), spellings(chain), spellings(key + end), strict=True
    ):
        assert made(ssl_cadata=trust, ssl_certdata=own, ssl_keydata=secret).uses_tls


def test_files_that_are_no_use_are_named(authority: DevAuthority, tmp_path: Path) -> None:
    """Security scenario 14. See security 9.

    Security trap 17. See security 10.
    """
    from cryptography.hazmat.primitives import serialization as forms

    key, end, chain = authority.issue("client").partition("-----END PRIVATE KEY-----\n")
    loaded = forms.load_pem_private_key((key + end).encode(), None)
    locked = loaded.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"canary")
    ).decode()
    (tmp_path / "not.pem").write_text("canary")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ssl_cafile": str(tmp_path / "none")}, "ssl_cafile: cannot read .*No such file"),
        ({"ssl_cafile": str(tmp_path / "not.pem")}, "ssl_cafile: cannot use"),
        ({"ssl_cadata": "canary"}, "ssl_cadata: cannot use the text"),
        ({"ssl_certdata": chain, "ssl_keydata": locked}, "set ssl_password"),
        ({"ssl_certdata": chain, "ssl_keydata": locked, "ssl_password": "wrong"}, "ssl_certdata"),
        ({"ssl_certdata": authority.certificate, "ssl_keydata": key + end}, "key values mismatch"),
        ({"ssl_ciphers": "NONE-OF-THESE"}, "ssl_ciphers"),
    ]
    for settings, why in cases:
        with pytest.raises(SettingError, match=why) as refused:
            made(**settings)
        assert "canary" not in str(refused.value)
    assert made(ssl_certdata=chain, ssl_keydata=locked, ssl_password="canary").uses_tls
