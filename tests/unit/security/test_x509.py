"""Subjects of certificates as Java writes them (security 2)."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.security.x509 import CertificateError, alternative_names, subject

CN, ORG, OU, DC, EMAIL = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.DOMAIN_COMPONENT,
    NameOID.EMAIL_ADDRESS,
)
KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def certificate(*parts: list[tuple[x509.ObjectIdentifier, str]], hosts: tuple[str, ...] = ()) -> bytes:
    name = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(oid, value) for oid, value in part])
            for part in parts
        ]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([[(CN, "alice")]], "CN=alice"),
        ([[(ORG, "Kohort")], [(OU, "team")], [(CN, "alice")]], "CN=alice,OU=team,O=Kohort"),
        ([[(CN, "Doe, Jane")]], "CN=Doe\\, Jane"),
        ([[(CN, '+"\\<>;')]], 'CN=\\+\\"\\\\\\<\\>\\;'),
        ([[(CN, "#1")]], "CN=\\#1"),
        ([[(CN, "a#1")]], "CN=a#1"),
        ([[(CN, " a ")]], "CN=\\ a\\ "),
        ([[(CN, "Zoë 東京")]], "CN=Zoë 東京"),
        ([[(CN, "a"), (OU, "b")]], None),
        ([[(DC, "example")]], "DC=example"),
        ([[(EMAIL, "a@b")]], "1.2.840.113549.1.9.1=#1603614062"),
        ([], ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(
    parts: list[list[tuple[x509.ObjectIdentifier, str]]], text: str | None
) -> None:
    """Security scenario 9. See security 9."""
    found = subject(certificate(*parts))
    if text is None:  # DER sorts the values of a set
        assert sorted(found.split("+")) == ["CN=a", "OU=b"]
    else:
        assert found == text


def test_alternative_names_are_found() -> None:
    assert alternative_names(certificate([(CN, "a")])) == frozenset()
    some = alternative_names(certificate([(CN, "a")], hosts=("x",)))
    more = alternative_names(certificate([(CN, "a")], hosts=("y", "x")))
    assert some < more
    assert len(more) == 2


def test_a_certificate_cut_anywhere_is_refused_and_nothing_else_happens() -> None:
    whole = certificate([(CN, "alice")], hosts=("x",))
    for length in range(len(whole)):
        with pytest.raises(CertificateError):
            subject(whole[:length])


WHOLE = certificate([(CN, "alice"), (EMAIL, "a@b")], hosts=("x",))


@settings(max_examples=300)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_damaged_certificate_is_read_or_refused(position: int, value: int) -> None:
    damaged = WHOLE[:position] + bytes([value]) + WHOLE[position + 1 :]
    for read in (subject, alternative_names):
        try:
            read(damaged)
        except CertificateError as error:
            assert str(error)  # noqa: PT017 - either outcome is right; any other exception is not
