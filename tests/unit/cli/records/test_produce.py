"""The choices of ``kohort produce``."""

from kohort.cli.records.produce import Compression
from kohort.records.compression import Codec


def test_every_codec_can_be_asked_for() -> None:
    assert {compression.name for compression in Compression} == {codec.name for codec in Codec}
