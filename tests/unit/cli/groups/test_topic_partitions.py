"""``--topic TOPIC[:0,1,…]``."""

import pytest
import typer

from kohort.cli.groups.topic_partitions import parse_topic_parts


def test_a_topic_alone_is_all_of_it() -> None:
    parts = parse_topic_parts("orders")
    assert (parts.topic, parts.partitions) == ("orders", None)
    assert parts.named() == []


def test_partitions_are_named_once_each() -> None:
    parts = parse_topic_parts("orders:3,0,3")
    assert (parts.topic, parts.partitions) == ("orders", (3, 0))
    assert [str(one) for one in parts.named()] == ["orders-3", "orders-0"]


@pytest.mark.parametrize("text", ["", ":0", "a b", "orders:", "orders:x", "orders:0,", "orders:-1"])
def test_what_cannot_be_understood_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left:
        parse_topic_parts(text)
    assert left.value.exit_code == 2
    assert "for example --topic orders:0,1" in capsys.readouterr().err
