"""ApiVersions: what is advertised, and the one API whose unsupported versions are answered."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange

from kohort.wire.apis import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.metadata import MetadataRequest

HIGHEST = 4


def api_versions(x: Exchange) -> Iterator[tuple[str, Answer]]:
    """Every version, one too high, bad software names; the connection stays usable throughout."""
    for version in range(HIGHEST + 1):
        request = ApiVersionsRequest(client_software_name="script", client_software_version="1.0")
        yield f"v{version}", x.get(request, version)
    for version in (HIGHEST + 1, 99):
        x.post_bytes(ApiKey.API_VERSIONS, version, b"whatever this is")
        yield f"v{version} is answered as v0", x.take(read_as=0)
    yield "the connection is still usable", x.get(ApiVersionsRequest(), 0)
    bad = ApiVersionsRequest(client_software_name="no spaces please", client_software_version="1")
    yield "a bad software name", x.get(bad, 3)
    bad = ApiVersionsRequest(client_software_name="script", client_software_version="-")
    yield "a bad software version", x.get(bad, 4)
    yield "an empty software name", x.get(ApiVersionsRequest(client_software_version="1"), 3)
    yield "a later request is served all the same", x.get(MetadataRequest(topics=[]), 9)
    x.post_bytes(ApiKey.METADATA, 99, b"", on="metadata")
    yield "another API in a version too high", x.take("metadata", read_as=0)
    x.post_bytes(ApiKey.PRODUCE, 2, b"\0\1\0\0\0\0\0\0\0\0", on="produce")
    yield "Produce v2, advertised but gone", x.take("produce", read_as=3)
    x.post_bytes(ApiKey.METADATA, 1, b"\0\0\0\5", on="short")
    yield "a body that ends too early", x.take("short")
