"""Partitions chosen as Java's producer chooses them."""

import pytest

from kohort.client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "java"),
    [
        # The values Kafka's own tests expect of Utils.murmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_of_a_key_is_that_of_java(key: bytes, java: int) -> None:
    assert murmur2(key) == java & 0xFFFFFFFF


def test_an_empty_key_is_a_key() -> None:
    assert partition_for_key(b"", 7) == (murmur2(b"") & 0x7FFFFFFF) % 7
