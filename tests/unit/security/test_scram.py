"""SCRAM: the vectors of RFC 7677 and 5802's rules, in both directions, and what each side refuses."""

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.scram import (
    ScramClient,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    credential_of,
    is_password_of,
    read_client_first,
    salted_password,
)

SHA_256 = ScramMechanism.SHA_256

# RFC 7677, section 3: user "user", password "pencil".
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(mechanism: ScramMechanism = SHA_256, password: str = "pencil") -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, 4_096), SALT, 4_096)


def server() -> ScramServer:
    return ScramServer(SHA_256, read_client_first(CLIENT_FIRST), credential(), SERVER_NONCE)


def challenged_client() -> ScramClient:
    client = ScramClient(SHA_256, "user", CLIENT_NONCE)
    client.challenge(SERVER_FIRST)
    return client


def test_the_client_writes_the_bytes_of_rfc_7677() -> None:
    """Security scenario 25. See security 9."""
    client = ScramClient(SHA_256, "user", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    client.challenge(SERVER_FIRST)
    assert (client.salt, client.iterations) == (SALT, 4_096)
    assert client.final(salted_password(SHA_256, "pencil", client.salt, client.iterations)) == CLIENT_FINAL
    client.verify(SERVER_FINAL)


def test_the_server_writes_the_bytes_of_rfc_7677() -> None:
    """Security scenario 25. See security 9."""
    assert server().challenge() == SERVER_FIRST
    assert server().finish(CLIENT_FINAL) == SERVER_FINAL


@given(
    st.sampled_from(ScramMechanism),
    st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1),
    st.text(min_size=1),
)
def test_each_user_and_password_gets_in_and_no_other_password_does(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    client = ScramClient(mechanism, user, "abc")
    first = read_client_first(client.first())
    assert (first.user, first.authzid) == (user, "")
    known = credential_of(mechanism, salted_password(mechanism, password, SALT, 4_096), SALT, 4_096)
    exchange = ScramServer(mechanism, first, known, "def")
    client.challenge(exchange.challenge())
    wrong = client.final(salted_password(mechanism, password + "x", client.salt, client.iterations))
    with pytest.raises(ScramError, match="proof is wrong"):
        exchange.finish(wrong)
    right = client.final(salted_password(mechanism, password, client.salt, client.iterations))
    client.verify(exchange.finish(right))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2Xer,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a\x01c",
        b"n,,n=us\xc3\xa9r,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=abc\n",
        b"n,,n=user,r=abc,1=x",
        b"n,,n=user,r=" + b"a" * 70_000,
    ],
)
def test_a_malformed_first_message_of_a_client_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError, match="malformed"):
        read_client_first(message)


def test_a_first_message_is_taken_apart() -> None:
    first = read_client_first(b"n,a=o=2Cther,n=a=3Db=2Cc,r=xyz,tokenauth=true,m=1")
    assert (first.user, first.authzid, first.nonce) == ("a=b,c", "o,ther", b"xyz")
    assert first.extensions == {"tokenauth": "true", "m": "1"}


def test_extensions_are_part_of_what_is_signed() -> None:
    first = read_client_first(CLIENT_FIRST + b",x=1")
    with pytest.raises(ScramError, match="proof is wrong"):
        ScramServer(SHA_256, first, credential(), SERVER_NONCE).finish(CLIENT_FINAL)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: it.replace(b"r=rOpr", b"r=xOpr"), "another nonce"),
        (lambda it: it.replace(b"r=rOpr", b"r=arOpr"), "another nonce"),
        (lambda it: it.replace(b"c=biws", b"c=eSws"), "another channel binding"),
        (lambda it: it.replace(b"c=biws", b"c=b"), "not base64"),
        (lambda it: it[: it.rindex(b"=dHz") + 1] + b64encode(b"short"), "a proof of 5 bytes"),
        (lambda it: it.replace(b"p=dHzb", b"p=eHzb"), "proof is wrong"),
        (lambda it: it.replace(b",p=", b",x=1,p="), "proof is wrong"),
        (lambda it: it[: it.rindex(b",p=")], "malformed"),
        (lambda it: it + b"\n", "malformed"),
    ],
)
def test_a_changed_last_message_of_a_client_is_refused(change: Callable[[bytes], bytes], why: str) -> None:
    with pytest.raises(ScramError, match=why):
        server().finish(change(CLIENT_FINAL))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "1 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=2147483648"), "2147483648 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4_096"), "malformed"),
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "malformed"),
        (SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=A"), "base64"),
        (b"e=unknown-user", "malformed"),
    ],
)
def test_a_hostile_first_message_of_a_server_is_refused(message: bytes, why: str) -> None:
    """Security scenario 29. See security 9."""
    with pytest.raises(ScramError, match=why):
        ScramClient(SHA_256, "user", CLIENT_NONCE).challenge(message)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "signature is wrong"),
        (b"v=" + b64encode(b"short"), "signature is wrong"),
        (b"e=other-error", "refuses: other-error"),
        (b"", "malformed"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_refused(message: bytes, why: str) -> None:
    """Security scenario 28. See security 9."""
    client = challenged_client()
    client.final(salted_password(SHA_256, "pencil", client.salt, client.iterations))
    with pytest.raises(ScramError, match=why):
        client.verify(message)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_serves_plain_as_well(mechanism: ScramMechanism) -> None:
    assert is_password_of(mechanism, credential(mechanism), "pencil")
    assert not is_password_of(mechanism, credential(mechanism), "pencils")


def test_a_credential_shows_no_key() -> None:
    assert repr(credential()) == "ScramCredential(iterations=4096)"
