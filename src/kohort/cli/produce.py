"""``kohort produce``: lines become records."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from kohort.cli.record_text import Format, InputStyle, parse_header, parse_record
from kohort.cli.screen import counted, note, say, show_json_line
from kohort.cli.serve import OK
from kohort.cli.session import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, refuse, talk
from kohort.client.admin import Admin
from kohort.client.produce import TopicWriter, WriteOptions, Written
from kohort.model.errors import KohortError
from kohort.records.compression import Codec

_CHUNK = 256 * 1024


class Compression(StrEnum):
    """The codecs, by the names Kafka's ``compression.type`` has for them."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(  # noqa: PLR0913 - each parameter is an option
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="Records; without any, lines of stdin.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help="What stands between key and value."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="A header for every record; may be repeated."
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Where all records go, whatever their key.")
    ] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = Compression.NONE,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="What a line is: the value, a JSON object with key and value, or hexadecimal.",
        ),
    ] = Format.TEXT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write records to a topic, and say where they went."""
    codec = Codec[compression.name]
    try:
        headers = [parse_header(text) for text in header or []]
        style = InputStyle(format_, key_separator, headers, partition)
        given = [parse_record(value, style) for value in values or []]
    except KohortError as error:
        raise refuse(str(error.args[0]), error.hint) from None

    async def command(admin: Admin) -> int:
        writer = TopicWriter(admin.cluster, topic, WriteOptions(codec=codec))
        if given:
            _show(topic, await writer.write(given), as_json)
            return OK
        total = 0
        async for lines in _lines_of_stdin():
            records = [parse_record(line, style) for line in lines]
            _show(topic, await writer.write(records), as_json)
            total += len(records)
        if not total and not as_json:
            note("nothing to write: standard input was empty")
        return OK

    talk(bootstrap, command)


async def _lines_of_stdin() -> AsyncIterator[list[str]]:
    """Lines as they come: one by one from a keyboard, as many as there are from a file or a pipe."""
    left = b""
    while received := await asyncio.to_thread(os.read, sys.stdin.fileno(), _CHUNK):
        *whole, left = (left + received).split(b"\n")
        if whole:
            yield [_text(line) for line in whole]
    if left:
        yield [_text(left)]


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "surrogateescape")


def _show(topic: str, written: Sequence[Written], as_json: bool) -> None:
    if as_json:
        for one in written:
            show_json_line(
                {
                    "topic": topic,
                    "partition": one.partition,
                    "offset": one.offset,
                    "timestamp": one.timestamp,
                }
            )
        return
    for text in summaries(topic, written):
        say(text)
    sys.stdout.flush()


def summaries(topic: str, written: Sequence[Written]) -> list[str]:
    """One line for each run of offsets: ``orders-0: offsets 3 to 9 (7 records)``."""
    by_partition: dict[int, list[int]] = {}
    for one in written:
        by_partition.setdefault(one.partition, []).append(one.offset)
    lines = []
    for partition, offsets in sorted(by_partition.items()):
        first, last = offsets[0], offsets[-1]
        where = f"offset {first}" if first == last else f"offsets {first} to {last}"
        lines.append(f"{topic}-{partition}: {where} ({counted(len(offsets), 'record')})")
    return lines
