"""What stands before the body of a message: API, version, correlation id, client id.

A request has header 1, or header 2 (with a tag section) if its version is flexible. The client id keeps its
two-byte length even there. A response has header 0 or, if flexible, header 1; for ApiVersions always 0.
"""

from struct import Struct as Format
from typing import Final, NamedTuple

from kohort.codec.decoder import skip_tags
from kohort.codec.errors import DecodeError
from kohort.model.errors import ProtocolError
from kohort.wire.apis import APIS, ApiKey


class RequestHeader(NamedTuple):
    """The header of a request; a client id of null is read as the empty one."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


class UnsupportedApiError(ProtocolError):
    """A request for an API, or a version of one, that has no declaration here: its body cannot be read.

    There is no reply a client could understand; its connection closes. ``header`` says who asked for what.
    """

    def __init__(self, header: RequestHeader) -> None:
        spec = APIS.get(header.api_key)
        if spec is None:
            asked, known = f"the unknown API {header.api_key} v{header.api_version}", ""
        else:
            asked, known = f"{spec.name} v{header.api_version}", f"; versions {spec.versions} are known"
        super().__init__(f"client {header.client_id!r} asked for {asked}{known}")
        self.header = header


# Whether a version is flexible, for all there are: one look-up for each request.
_IS_FLEXIBLE: Final = {
    (spec.key.value, version): spec.is_flexible(version)
    for spec in APIS.values()
    for version in range(spec.versions.first, spec.versions.last + 1)
}

_REQUEST = Format(">hhih")
_PLAIN_RESPONSE = Format(">i")
_FLEXIBLE_RESPONSE = Format(">ix")


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    UnsupportedApiError if the body could not be read, with one exception: ApiVersions of a version that is
    too high gets a header, because it must be answered (in version 0, without looking at the body).
    """
    if len(frame) < _REQUEST.size:
        raise DecodeError(f"a request of {len(frame)} bytes: too short for a header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    is_flexible = _IS_FLEXIBLE.get((api_key, version))
    if is_flexible is None:
        return _read_unsupported(frame, RequestHeader(api_key, version, correlation_id, ""), length)
    client_id, position = _read_client_id(frame, length)
    if is_flexible:
        position = _skip_tags(frame, position)
    return RequestHeader(api_key, version, correlation_id, client_id), position


def _skip_tags(frame: bytes, position: int) -> int:
    try:
        count = frame[position]
        return skip_tags(frame, position + 1, count, "header: tags") if count else position + 1
    except IndexError as error:
        raise DecodeError("header: ends in the middle of its tags") from error


def _read_client_id(frame: bytes, length: int) -> tuple[str, int]:
    start = _REQUEST.size
    if length < 0:
        return "", start
    stop = start + length
    if stop > len(frame):
        raise DecodeError(f"header: client id of {length} bytes, {len(frame) - start} left")
    try:
        return frame[start:stop].decode(), stop
    except UnicodeDecodeError as error:
        raise DecodeError(f"header: client id is not UTF-8: {error.reason}") from error


def _read_unsupported(frame: bytes, header: RequestHeader, length: int) -> tuple[RequestHeader, int]:
    position = _REQUEST.size
    try:
        client_id, position = _read_client_id(frame, length)
        header = header._replace(client_id=client_id)
    except DecodeError:
        pass  # an unknown API need not have this header: what could be read is all there is to tell
    if header.api_key == ApiKey.API_VERSIONS:
        return header, position
    raise UnsupportedApiError(header)


def request_header(header: RequestHeader) -> bytes:
    """A request header as a client writes it, in the version the API demands."""
    client_id = header.client_id.encode()
    spec = APIS[header.api_key]
    tags = b"\0" if spec.is_flexible(header.api_version) else b""
    return (
        _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, len(client_id))
        + client_id
        + tags
    )


def response_header(correlation_id: int, flexible: bool) -> bytes:
    """The header of a reply; ``flexible`` is what ``ApiSpec.response_header_is_flexible`` says."""
    return (_FLEXIBLE_RESPONSE if flexible else _PLAIN_RESPONSE).pack(correlation_id)


def read_response_header(frame: bytes, flexible: bool) -> tuple[int, int]:
    """The correlation id of a reply and the position of its body."""
    if len(frame) < _PLAIN_RESPONSE.size + flexible:
        raise DecodeError(f"a response of {len(frame)} bytes: too short for a header")
    (correlation_id,) = _PLAIN_RESPONSE.unpack_from(frame)
    position = _PLAIN_RESPONSE.size
    return correlation_id, _skip_tags(frame, position) if flexible else position
