"""Records to send through a broker, and the comparison of what came out with what went in."""

from collections.abc import Sequence

from tests.clients.libraries import Got, Headers, Sample

START = 1_700_000_000_000  # the timestamp of the first record


def samples(count: int, *, partitions: int) -> list[Sample]:
    """Records of every shape all clients can send: tombstones, no key, empty, long, with headers."""
    return [_sample(number, number % partitions) for number in range(count)]


def _sample(number: int, partition: int) -> Sample:
    key: bytes | None = b"key-%d" % number
    value: bytes | None = b"value of record %d, which repeats: " % number + b"ab" * (number % 40)
    headers: Headers = ()
    match number % 11:
        case 1:
            key = None
        case 2:
            value = None
        case 3:
            key, value = b"", b""
        case 4:
            headers = (("one", b"1"), ("empty", b""), ("one", b"again"))
        case 5 if number % 1_000 == 5:
            value = bytes(range(256)) * 80
        case 6:
            key = "schlüssel-\N{GREEK SMALL LETTER LAMDA}".encode()
    return Sample(partition, key, value, headers, START + number)


def assert_same(records: Sequence[Got], sent: Sequence[Sample], *, partitions: int) -> None:
    """Everything came out once, whole, and in the order of its partition."""
    for partition in range(partitions):
        read = [record for record in records if record.place.partition == partition]
        expected = [sample for sample in sent if sample.partition == partition]
        assert [record.offset for record in read] == list(range(len(expected)))
        for record, sample in zip(read, expected, strict=True):
            came = Sample(partition, record.key, record.value, record.headers, record.timestamp)
            assert came == sample
