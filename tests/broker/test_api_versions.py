"""ApiVersions: what is announced, in which shape, and what happens to versions nobody knows."""

import struct

import pytest
from tests.broker.raw import Raw

from kohort.codec.compiled import decode
from kohort.model.errors import ErrorCode
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

VERSIONS = range(5)
SENSIBLE = ApiVersionsRequest(client_software_name="raw-test", client_software_version="1.0")

# Broker-apis 2.1, column "Kohort": the APIs of this wave.
SPECIFIED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9),
    12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7),
    20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4),
    33: (0, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 46: (0, 0),
    47: (0, 0), 48: (0, 1), 50: (0, 0), 51: (0, 0), 57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0),
    66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
    76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
}  # fmt: skip

# Single versions that librdkafka up to 2.11.0 looks for inside the announced ranges.


def announced(raw: Raw, version: int) -> dict[int, tuple[int, int]]:
    reply = raw.send(SENSIBLE, version)
    assert reply.error_code == 0
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in reply.api_keys}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_announces_exactly_the_ranges_of_the_specification(raw: Raw, version: int) -> None:
    assert announced(raw, version) == SPECIFIED


@pytest.mark.parametrize("key", [24, 25, 26, 27, 28])
def test_transactions_are_not_announced(raw: Raw, key: int) -> None:
    """Modern scenario 71, a TxnOffsetCommit (28) with a stale epoch, cannot occur."""
    assert key not in announced(raw, 4)


@pytest.mark.parametrize("key", [38, 45, 49, 55, 71, 72, 88])
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


@pytest.mark.parametrize("wrong", ["", "-x", "x-", ".", "a b", "ü", "a_b", "a\n"])
def test_other_software_names_and_versions_are_an_invalid_request(raw: Raw, wrong: str) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=wrong, client_software_version="1"),
        ApiVersionsRequest(client_software_name="x", client_software_version=wrong),
    ):
        reply = raw.send(request, 3)
        assert reply.error_code == ErrorCode.INVALID_REQUEST
        assert reply.api_keys == []
