"""Records in, a restart of the broker, the same records out: every client, every codec."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.libraries import CODECS, NAMES, Library, Production
from tests.clients.node import Node
from tests.clients.records import assert_same, samples

from kohort.records.batch import batches
from kohort.records.compression import Codec

COUNT = 2_000
PARTITIONS = 3
SENT = samples(COUNT, partitions=PARTITIONS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("restarted")


@pytest.fixture(scope="module")
def restarted(data: Path, libraries: dict[str, Library]) -> Iterator[Node]:
    """A broker that was stopped and started after every library had written with every codec."""
    with Node(data, {"num.partitions": PARTITIONS}) as node:
        for writer in libraries.values():
            for codec in CODECS:
                how = Production(codec=codec, idempotent=True)
                offsets = writer.produce(node.bootstrap, f"{writer.name}-{codec}", SENT, how)
                assert offsets == [number // PARTITIONS for number in range(COUNT)]
        node.restart()
        yield node


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", NAMES)
def test_each_client_reads_what_each_wrote_before_a_restart(
    restarted: Node, writer: str, codec: str, library: Library
) -> None:
    records = library.read(restarted.bootstrap, f"{writer}-{codec}", PARTITIONS, COUNT)

    assert_same(records, SENT, partitions=PARTITIONS)


@pytest.mark.usefixtures("restarted")
@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", NAMES)
def test_batches_are_stored_in_the_codec_they_came_in(data: Path, writer: str, codec: str) -> None:
    segments = sorted(data.glob(f"**/{writer}-{codec}-0/*.log"))

    stored = {header.codec for segment in segments for _, header in batches(segment.read_bytes())}

    # A client sends a batch as it is where compressing made it no smaller; none compresses unasked.
    assert Codec[codec.upper()] in stored
    assert stored <= {Codec[codec.upper()], Codec.NONE}
