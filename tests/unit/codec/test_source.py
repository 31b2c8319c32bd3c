"""Writing a function as text."""

import traceback

import pytest

from kohort.codec.source import Formats, FunctionSource, fields_in
from kohort.wire.messages.fetch import PartitionData


def test_lines_and_blocks_become_a_function() -> None:
    source = FunctionSource("double(x)")
    with source.block("if x < LIMIT:"):
        source.add("return x * 2")
    source.add("return x")
    source.define("LIMIT", 10)
    assert source.text() == "def double(x):\n    if x < LIMIT:\n        return x * 2\n    return x\n"
    double = source.build("test")
    assert (double(4), double(12)) == (8, 12)


def test_a_constant_has_one_name_however_often_it_is_asked_for() -> None:
    source = FunctionSource("get()")
    first, other = source.constant("c", "a", [1]), source.constant("c", "b", [2])
    assert source.constant("c", "a", [1]) == first != other
    source.add(f"return {first} + {other}")
    assert source.build("test")() == [1, 2]


def test_fresh_names_never_repeat() -> None:
    source = FunctionSource("get()")
    assert len({source.fresh("n") for _ in range(10)} | {source.fresh("m") for _ in range(10)}) == 20


def test_formats_are_made_by_count_and_only_small_ones_kept() -> None:
    packers = Formats("h", "pack")
    assert packers[2](1, 2) == b"\0\1\0\2"
    assert packers[2] is packers[2]
    assert packers[100](*range(100))[:4] == b"\0\0\0\1"
    assert list(packers) == [2]


def test_a_traceback_names_where_the_function_came_from() -> None:
    source = FunctionSource("fail()")
    source.add("raise ValueError('no')")
    with pytest.raises(ValueError, match="no") as caught:
        source.build("decoder of X v1")()
    assert "<decoder of X v1>" in "".join(traceback.format_exception(caught.value))


def test_fields_of_a_version_are_in_line_tagged_or_absent() -> None:
    plain, tagged, absent = fields_in(PartitionData, 11)
    assert [field.name for field in plain][-2:] == ["preferred_read_replica", "records"]
    assert tagged == []
    assert [field.name for field in absent] == ["diverging_epoch", "current_leader", "snapshot_id"]
    _, tagged, absent = fields_in(PartitionData, 12)
    assert [field.tag for field in tagged] == [0, 1, 2]
    assert absent == []
