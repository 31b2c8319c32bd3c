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
        ([[(CN, "a#1")]], "CN=a\\#1"),
        ([[(CN, "a=b")]], "CN=a\\=b"),
        ([[(CN, "a\0b")]], "CN=a\\00b"),
        ([[(CN, "  ")]], "CN=\\ \\ "),
        ([[(CN, "a  b\tc\nd")]], "CN=a  b\tc\nd"),
        ([[(CN, " a ")]], "CN=\\ a\\ "),
        ([[(CN, "Zoë 東京")]], "CN=Zoë 東京"),
        ([[(CN, "\U0001f600, a\u0301")]], "CN=\U0001f600\\, a\u0301"),
        ([[(OU, "b"), (CN, "a")]], "CN=a+OU=b"),  # DER sorts the values of a set
        ([[(CN, "x"), (CN, "b"), (ORG, "c,d")]], "CN=b+CN=x+O=c\\,d"),
        ([[(NameOID.TITLE, "Dr"), (CN, "a")]], "CN=a+2.5.4.12=#0c024472"),
        ([[(DC, "com")], [(DC, "example")]], "DC=example,DC=com"),
        (
            [[(NameOID.COUNTRY_NAME, "DE")], [(NameOID.STATE_OR_PROVINCE_NAME, "B")],
             [(NameOID.LOCALITY_NAME, "München")], [(NameOID.STREET_ADDRESS, "1, Road")],
             [(NameOID.USER_ID, "u")]],
            "UID=u,STREET=1\\, Road,L=München,ST=B,C=DE",
        ),
        ([[(NameOID.SERIAL_NUMBER, "42")], [(CN, "a")]], "CN=a,2.5.4.5=#13023432"),
        ([[(NameOID.SURNAME, "Ø")]], "2.5.4.4=#0c02c398"),
        ([[(x509.ObjectIdentifier("1.2.3.4.5"), "x")]], "1.2.3.4.5=#0c0178"),
        ([[(EMAIL, "a@b")]], "1.2.840.113549.1.9.1=#1603614062"),
        ([], ""),
    ],
)  # fmt: skip
def test_a_subject_is_written_as_java_writes_it(
    parts: list[list[tuple[x509.ObjectIdentifier, str]]], text: str
) -> None:
    """Security scenario 9. The texts are those that X500Principal.getName of Java 17 gave for them."""
    assert subject(certificate(*parts)) == text


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
