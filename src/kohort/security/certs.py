"""A certificate authority for development and tests: it signs a few certificates, and its key is not kept."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from kohort.model.errors import KohortError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
DEFAULT_DAYS = 365


class CertificateToolError(KohortError):
    """Certificates cannot be made here."""


class DevAuthority:
    """Signs certificates with P-256 keys. Everything it returns is PEM text."""

    def __init__(
        self, now: datetime, *, days: int = DEFAULT_DAYS, name: str = "Kohort development CA"
    ) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise CertificateToolError(
                "making certificates needs the package cryptography", hint="pip install 'kohort[oauth]'"
            ) from None
        self._now = now
        self._days = days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._certificate = self._signed(self._name, self._key.public_key(), (), self._lifetime(days))

    @property
    def certificate(self) -> str:
        """What clients and brokers trust."""
        return _pem(self._certificate)

    def issue(self, common_name: str, hosts: Sequence[str] = LOCAL_HOSTS, *, days: int | None = None) -> str:
        """A key and its chain in one text, for the host names and addresses; negative ``days``: expired."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        lifetime = self._lifetime(self._days if days is None else days)
        certificate = self._signed(_named(common_name), key.public_key(), hosts, lifetime)
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,  # the only one that Java reads
            serialization.NoEncryption(),
        )
        return text.decode() + _pem(certificate) + self.certificate

    def _lifetime(self, days: int) -> tuple[datetime, datetime]:
        end = self._now + timedelta(days=days)
        return min(self._now, end) - timedelta(days=1), end  # a day back: clocks differ

    def _signed(
        self,
        subject: "x509.Name",
        key: "ec.EllipticCurvePublicKey",
        hosts: Sequence[str],
        lifetime: tuple[datetime, datetime],
    ) -> "x509.Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID

        is_authority = not hosts
        own = self._key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(lifetime[0])
            .not_valid_after(lifetime[1])
            .add_extension(
                x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), True
            )
            .add_extension(_usage(is_authority), True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), False)
        )
        if hosts:
            purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), False)
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, False)
        return builder.sign(self._key, hashes.SHA256())


def _named(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(is_authority: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host if host.isascii() else host.encode("idna").decode())
    except ValueError as error:
        raise CertificateToolError(f"{host!r} is not the name of a host: {error}") from None


def _pem(certificate: "x509.Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
