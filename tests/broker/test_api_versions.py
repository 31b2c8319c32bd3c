"""ApiVersions: what is announced, in which shape, and what happens to versions nobody knows."""

import struct

import pytest
from tests.broker.asking import metadata
from tests.broker.raw import Raw, framed

from kohort.broker.handlers import SERVED
from kohort.codec.compiled import decode
from kohort.model.errors import ErrorCode
from kohort.wire.apis import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

VERSIONS = range(5)
SENSIBLE = ApiVersionsRequest(client_software_name="raw-test", client_software_version="1.0")

# Broker-apis 2.1, column "Kohort": the APIs of this wave.
SPECIFIED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9),
    12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7),
    20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4),
    33: (0, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 46: (0, 0),
    47: (0, 0), 48: (0, 1), 50: (0, 0), 51: (0, 0), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2),
    68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
    76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
}  # fmt: skip

# Single versions that librdkafka up to 2.11.0 looks for inside the announced ranges.
NEEDED_BY_OLD_LIBRDKAFKA = {
    0: (0, 3, 7), 1: (4, 10), 2: (1,), 8: (2,), 9: (1,), 10: (0,), 11: (0,), 12: (0,), 13: (0,), 14: (0,),
    18: (0,), 22: (0,),
}  # fmt: skip


def announced(raw: Raw, version: int) -> dict[int, tuple[int, int]]:
    reply = raw.send(SENSIBLE, version)
    assert reply.error_code == 0
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in reply.api_keys}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_announces_exactly_the_ranges_of_the_specification(raw: Raw, version: int) -> None:
    assert announced(raw, version) == SPECIFIED


def test_the_list_is_sorted_by_key_and_free_of_repetitions(raw: Raw) -> None:
    keys = [entry.api_key for entry in raw.send(SENSIBLE, 3).api_keys]
    assert keys == sorted(set(keys))


def test_every_range_goes_upwards(raw: Raw) -> None:
    assert all(low <= high for low, high in announced(raw, 3).values())


def test_versions_that_old_librdkafka_tests_for_lie_inside_the_ranges(raw: Raw) -> None:
    ranges = announced(raw, 0)
    for key, versions in NEEDED_BY_OLD_LIBRDKAFKA.items():
        low, high = ranges[key]
        assert all(low <= version <= high for version in versions), ApiKey(key).name


def test_what_is_announced_is_what_the_registry_serves(raw: Raw) -> None:
    registered = {
        int(api.key): (api.oldest if api.advertised_from is None else api.advertised_from, api.newest)
        for api in SERVED
    }
    assert announced(raw, 4) == registered


@pytest.mark.parametrize("key", [24, 25, 26, 27, 28])
def test_transactions_are_not_announced(raw: Raw, key: int) -> None:
    """Modern scenario 71, a TxnOffsetCommit (28) with a stale epoch, cannot occur."""
    assert key not in announced(raw, 4)


@pytest.mark.parametrize("key", [38, 45, 49, 55, 57, 71, 72, 88])
def test_what_is_not_served_is_not_announced_either(raw: Raw, key: int) -> None:
    assert key not in announced(raw, 4)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_reply_header_has_no_tags_in_any_version(raw: Raw, version: int) -> None:
    raw.post(SENSIBLE, version)
    frame = raw.take_frame()
    # With header version 0 the error code follows the correlation id at once.
    assert struct.unpack_from(">h", frame, 4) == (0,)
    assert decode(ApiVersionsResponse, version, frame, 4).api_keys


@pytest.mark.parametrize(("version", "supported"), [(3, []), (4, [("group.version", 0, 1)])])
def test_consumer_groups_are_published_as_a_feature(
    raw: Raw, version: int, supported: list[tuple[str, int, int]]
) -> None:
    """Clients in Java before 3.9 cannot read a feature that starts at 0."""
    reply = raw.send(SENSIBLE, version)
    assert [(each.name, each.min_version, each.max_version) for each in reply.supported_features] == supported
    finalized = [(each.name, each.max_version_level) for each in reply.finalized_features]
    assert (finalized, reply.finalized_features_epoch) == ([("group.version", 1)], 0)


@pytest.mark.parametrize("version", [5, 6, 99, 32767, -1])
def test_an_unknown_version_gets_a_v0_reply_that_names_only_itself(raw: Raw, version: int) -> None:
    raw.send_bytes(api_versions_frame(version, b"\x00garbage that nobody parses"))
    frame = receive_frame(raw)
    assert struct.unpack_from(">i", frame) == (77,)
    reply = decode(ApiVersionsResponse, 0, frame, 4)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    entries = [(entry.api_key, entry.min_version, entry.max_version) for entry in reply.api_keys]
    assert entries == [(18, 0, 4)]


def test_the_connection_stays_usable_after_an_unknown_version(raw: Raw) -> None:
    raw.send_bytes(api_versions_frame(99, b""))
    receive_frame(raw)
    assert announced(raw, 4) == SPECIFIED
    assert metadata(raw).brokers


def test_an_unknown_version_may_have_a_body_of_any_length(raw: Raw) -> None:
    raw.send_bytes(api_versions_frame(9, bytes(50_000)))
    assert receive_frame(raw)


@pytest.mark.parametrize("name", ["librdkafka", "apache-kafka-java", "a", "A1", "x.y-z0"])
def test_software_names_of_letters_digits_dots_and_dashes_are_welcome(raw: Raw, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="4.2.0")
    assert raw.send(request, 4).error_code == 0


@pytest.mark.parametrize("wrong", ["", "-x", "x-", ".", "a b", "ü", "a_b", "a\n"])
def test_other_software_names_and_versions_are_an_invalid_request(raw: Raw, wrong: str) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=wrong, client_software_version="1"),
        ApiVersionsRequest(client_software_name="x", client_software_version=wrong),
    ):
        reply = raw.send(request, 3)
        assert reply.error_code == ErrorCode.INVALID_REQUEST
        assert reply.api_keys == []


def api_versions_frame(version: int, body: bytes) -> bytes:
    return framed(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, 3) + b"raw" + body)


def receive_frame(raw: Raw) -> bytes:
    """A reply to a request that ``Raw`` did not number."""
    received = b""
    while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
        chunk = raw.receive_once()
        assert chunk, "the broker closed the connection"
        received += chunk
    return received[4:]
