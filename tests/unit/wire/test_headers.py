"""Headers before requests and replies, and requests nobody here can read."""

import struct

import pytest

from kohort.codec.errors import DecodeError
from kohort.model.errors import ProtocolError
from kohort.wire.apis import ApiKey, api_spec
from kohort.wire.headers import (
    RequestHeader,
    UnsupportedApiError,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
)


def start(api: int, version: int, client_id: bytes | None = b"me") -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api, version, 42, length) + (client_id or b"")


def test_an_old_version_has_a_header_without_tags() -> None:
    frame = start(ApiKey.HEARTBEAT, 3) + b"body"
    assert read_request_header(frame) == (RequestHeader(12, 3, 42, "me"), len(frame) - 4)


def test_a_flexible_version_has_tags_after_a_client_id_that_is_not_compact() -> None:
    frame = start(ApiKey.HEARTBEAT, 4) + b"\0" + b"body"
    assert read_request_header(frame) == (RequestHeader(12, 4, 42, "me"), len(frame) - 4)


def test_tags_of_the_header_are_skipped() -> None:
    frame = start(ApiKey.HEARTBEAT, 4) + b"\2\1\3abc\7\0" + b"body"
    header, position = read_request_header(frame)
    assert header.client_id == "me"
    assert frame[position:] == b"body"


def test_a_null_client_id_is_the_empty_one() -> None:
    header, position = read_request_header(start(ApiKey.HEARTBEAT, 0, None) + b"body")
    assert header.client_id == ""
    assert position == 10


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_of_any_version_has_a_readable_header(version: int) -> None:
    header, _ = read_request_header(start(ApiKey.API_VERSIONS, version) + b"\0whatever")
    assert header == RequestHeader(18, version, 42, "me")


def test_api_versions_of_the_future_is_answerable_even_if_its_client_id_is_not_text() -> None:
    header, _ = read_request_header(start(ApiKey.API_VERSIONS, 77, b"\xff\xfe"))
    assert header == RequestHeader(18, 77, 42, "")


@pytest.mark.parametrize(
    ("api", "version", "text"),
    [
        (71, 0, "client 'me' asked for the unknown API 71 v0"),
        (ApiKey.PRODUCE, 2, "client 'me' asked for Produce v2; versions 3-13 are known"),
        (ApiKey.OFFSET_DELETE, 1, "client 'me' asked for OffsetDelete v1; versions 0 are known"),
    ],
)
def test_a_request_nobody_can_read_says_who_asked_for_what(api: int, version: int, text: str) -> None:
    with pytest.raises(UnsupportedApiError) as caught:
        read_request_header(start(api, version) + b"body")
    assert str(caught.value) == text
    assert caught.value.header == RequestHeader(api, version, 42, "me")
    assert isinstance(caught.value, ProtocolError)


def test_an_unknown_api_with_another_header_is_still_named() -> None:
    with pytest.raises(UnsupportedApiError) as caught:
        read_request_header(struct.pack(">hhih", 1000, 1, 42, 30_000))
    assert caught.value.header == RequestHeader(1000, 1, 42, "")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "too short"),
        (start(ApiKey.HEARTBEAT, 3)[:9], "too short"),
        (start(ApiKey.HEARTBEAT, 3)[:-1], "client id of 2 bytes, 1 left"),
        (start(ApiKey.HEARTBEAT, 3, b"\xff"), "not UTF-8"),
        (start(ApiKey.HEARTBEAT, 4), "in the middle of its tags"),
        (start(ApiKey.HEARTBEAT, 4) + b"\1", "in the middle of its tags"),
        (start(ApiKey.HEARTBEAT, 4) + b"\1\0\x09abc", "9 bytes announced, 3 left"),
    ],
)
def test_a_broken_header_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_request_header(frame)


@pytest.mark.parametrize(("api", "version"), [(12, 3), (12, 4), (18, 3), (17, 1)])
def test_what_a_client_writes_is_what_the_broker_reads(api: int, version: int) -> None:
    header = RequestHeader(api, version, 7, "cliënt")
    written = request_header(header)
    assert read_request_header(written + b"body") == (header, len(written))


def test_the_header_of_a_flexible_reply_has_a_tag_section() -> None:
    assert response_header(42, flexible=False) == b"\0\0\0\x2a"
    assert response_header(42, flexible=True) == b"\0\0\0\x2a\0"


def test_the_reply_to_api_versions_never_has_a_tag_section_in_its_header() -> None:
    spec = api_spec(ApiKey.API_VERSIONS)
    assert spec.is_flexible(3)
    assert not any(spec.response_header_is_flexible(version) for version in range(5))
    assert api_spec(ApiKey.HEARTBEAT).response_header_is_flexible(4)
    assert not api_spec(ApiKey.HEARTBEAT).response_header_is_flexible(3)
    assert not api_spec(ApiKey.SASL_HANDSHAKE).response_header_is_flexible(1)


def test_the_header_of_a_reply_can_be_read_back() -> None:
    assert read_response_header(response_header(42, flexible=False) + b"body", flexible=False) == (42, 4)
    assert read_response_header(response_header(42, flexible=True) + b"body", flexible=True) == (42, 5)
    assert read_response_header(b"\0\0\0\x2a\1\5\1x" + b"body", flexible=True) == (42, 8)


@pytest.mark.parametrize(
    ("frame", "flexible"), [(b"\0\0\0", False), (b"\0\0\0\0", True), (b"\0\0\0\0\1", True)]
)
def test_a_broken_header_of_a_reply_is_refused(frame: bytes, flexible: bool) -> None:
    with pytest.raises(DecodeError):
        read_response_header(frame, flexible)
