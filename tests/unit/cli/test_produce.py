"""What ``kohort produce`` says."""

from kohort.cli.produce import Compression, summaries
from kohort.client.produce import Written
from kohort.model.ids import Offset, Partition
from kohort.records.compression import Codec


def written(partition: int, *offsets: int) -> list[Written]:
    return [Written(Partition(partition), Offset(offset), 0) for offset in offsets]


def test_where_records_went_is_one_line_for_each_partition() -> None:
    assert summaries("t", [*written(1, 5), *written(0, 2, 3, 4)]) == [
        "t-0: offsets 2 to 4 (3 records)",
        "t-1: offset 5 (1 record)",
    ]


def test_every_codec_can_be_asked_for() -> None:
    assert {compression.name for compression in Compression} == {codec.name for codec in Codec}
