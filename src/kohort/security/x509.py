"""The subject of a certificate as Java writes it (RFC 2253), read from DER without a library (security 2)."""

from collections.abc import Iterator
from typing import NamedTuple

_SEQUENCE, _OID, _OCTETS = 0x30, 0x06, 0x04
_EXTENSIONS = 0xA3  # [3] of a TBSCertificate
_ALTERNATIVE_NAMES = "2.5.29.17"
_MOST_NAMES = 100  # relative names of a subject
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# Tags of the string types, and how Python calls their encodings.
_STRINGS = {0x13: "ascii", 0x0C: "utf-8", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "utf-16-be"}
_ESCAPED = {ord(char): f"\\{char}" for char in ',=+<>#;"\\'} | {0: "\\00"}


class CertificateError(ValueError):
    """Bytes that are no certificate."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject(certificate: bytes) -> str:
    """The distinguished name: last part first, ``,`` between parts, ``+`` inside of one."""
    parts = list(_elements(_body(certificate)[4].content))
    if len(parts) > _MOST_NAMES:
        raise CertificateError(f"a subject of {len(parts)} parts")
    return ",".join("+".join(_attribute(one) for one in _elements(part.content)) for part in reversed(parts))


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The subject alternative names, each in its DER form."""
    for field in _body(certificate):
        if field.tag == _EXTENSIONS:
            for extension in _elements(_first(field.content).content):
                name, *_, value = _elements(extension.content)
                if name.tag == _OID and _oid(name.content) == _ALTERNATIVE_NAMES and value.tag == _OCTETS:
                    return frozenset(one.whole for one in _elements(_first(value.content).content))
    return frozenset()


def _body(certificate: bytes) -> list[_Element]:
    """The fields of the TBSCertificate; the subject is number 4, whether or not a version is there."""
    outer = _first(certificate)
    if outer.tag != _SEQUENCE:
        raise CertificateError("not a certificate")
    fields = list(_elements(_first(outer.content).content))
    if fields and fields[0].tag == 0xA0:  # the version, which certificates of version 1 leave out
        del fields[0]
    if len(fields) < 6:
        raise CertificateError("a certificate without a subject")
    return fields


def _attribute(pair: _Element) -> str:
    try:
        kind, value = _elements(pair.content)
    except ValueError:
        raise CertificateError("a part of the subject is not a pair of type and value") from None
    oid = _oid(kind.content)
    keyword = _KEYWORDS.get(oid)
    encoding = _STRINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{value.whole.hex()}"
    try:
        return f"{keyword}={_escape(value.content.decode(encoding))}"
    except UnicodeDecodeError as error:
        raise CertificateError(f"{keyword} of a subject: {error.reason}") from None


def _escape(text: str) -> str:
    escaped = text.translate(_ESCAPED)
    bare = escaped.strip(" ")
    if not bare:
        return "\\ " * len(escaped)
    leading = len(escaped) - len(escaped.lstrip(" "))
    trailing = len(escaped) - len(escaped.rstrip(" "))
    return "\\ " * leading + bare + "\\ " * trailing


def _oid(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise CertificateError("an object id that does not end")
    numbers = [0]
    for byte in content:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:-1])))


def _first(content: bytes) -> _Element:
    for element in _elements(content):
        return element
    raise CertificateError("an element is missing")


def _elements(content: bytes) -> Iterator[_Element]:
    position = 0
    while position < len(content):
        start = position
        if position + 2 > len(content):
            raise CertificateError("an element without a length")
        tag, length = content[position], content[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or position + count > len(content):
                raise CertificateError("a length that cannot be")
            length = int.from_bytes(content[position : position + count], "big")
            position += count
        if position + length > len(content):
            raise CertificateError("an element that is cut off")
        yield _Element(tag, content[position : position + length], content[start : position + length])
        position += length
