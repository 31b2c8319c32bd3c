"""A column of keys is hashed as its keys are."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import lib as pa

from kohort.client.producer.records import murmur2, partition_for_key
from kohort.spark.encode_keys import murmur2_column, partitions_for_keys

steady = settings(derandomize=True, deadline=None, max_examples=100)


@steady
@given(st.lists(st.none() | st.binary(max_size=40) | st.integers(0, 2_000).map(lambda size: b"\xfe" * size)))
def test_each_key_has_the_hash_it_has_alone(keys: list[bytes | None]) -> None:
    expected = [0 if key is None else murmur2(key) for key in keys]
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == expected


def test_many_keys_go_where_the_producer_puts_them() -> None:
    dice = random.Random(5)
    keys = [dice.randbytes(dice.randrange(24)) for _ in range(3_000)]
    for count in (1, 3, 12, 100):
        expected = [partition_for_key(key, count) for key in keys]
        assert partitions_for_keys(pa.array(keys, pa.binary()), count).tolist() == expected


def test_keys_of_a_slice_are_those_of_the_slice() -> None:
    keys = pa.array([b"left out", b"21", None, b"foobar"], pa.binary()).slice(1)
    assert murmur2_column(keys).tolist() == [murmur2(b"21"), 0, murmur2(b"foobar")]


def test_known_values_of_the_java_producer() -> None:
    keys = pa.array([b"21", b"foobar", b"a-little-bit-long-string"], pa.binary())
    signed = [-973932308, -790332482, -985981536]
    assert murmur2_column(keys).tolist() == [value & 0xFFFFFFFF for value in signed]
