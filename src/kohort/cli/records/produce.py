"""``kohort produce``: lines become records."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kohort.cli.command_config import CommandConfig, settings_texts, warn_of_visible_secrets
from kohort.cli.commentary import Commentary
from kohort.cli.records.produce_input import Pace, Synthetic, chunks_of, records_of
from kohort.cli.records.produce_receipts import ProduceReceipts
from kohort.cli.records.record_input import Input, InputRecord, InputStyle, parse_header, parse_record
from kohort.cli.running import OK
from kohort.cli.session import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, ClusterOptions, Quiet, refuse, talk
from kohort.cli.settings_text import InputError, parse_settings
from kohort.client.admin import AsyncAdmin
from kohort.client.producer import ProducerSettings
from kohort.client.producer.async_producer import AsyncProducer
from kohort.client.security.names import is_security_name
from kohort.model.errors import KohortError

Rounds = AsyncIterator[list[InputRecord]]

_REQUEST_MS, _DELIVERY_MS = 10_000, 30_000  # a person is waiting
_SIZE, _KEYS = 100, 1_000
_LINE, _MADE, _SENT = "What a line is", "Records made up", "How they are sent"


class Compression(StrEnum):
    """The codecs, by the names Kafka's ``compression.type`` has for them."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Who has a record before it counts as written."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be written, and how."""

    topic: str
    rounds: Rounds
    settings: dict[str, Any]
    limit: int | None = None
    rate: float | None = None
    is_typed: bool = False  # a person types the lines and wants an answer to each


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="Records; without any, lines of stdin.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-i",
            metavar="PATH",
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help="Take the lines of a file.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--max", "-m", metavar="N", min=1, help="Stop after this many records.")
    ] = None,
    format_: Annotated[
        Input,
        typer.Option(
            "--format",
            "-f",
            help="The value as it is, a JSON object as `kohort consume` prints it, or hexadecimal.",
            rich_help_panel=_LINE,
        ),
    ] = Input.TEXT,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-k",
            metavar="TEXT",
            help="The text between key and value.",
            rich_help_panel=_LINE,
        ),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(
            "--null",
            metavar="TEXT",
            help="The text that means no value (a tombstone) or no key.",
            rich_help_panel=_LINE,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="NAME=VALUE",
            help="A header for every record; may be repeated.",
            rich_help_panel=_LINE,
        ),
    ] = None,
    made_up: Annotated[
        int | None,
        typer.Option(
            "--random",
            metavar="N",
            min=1,
            help="Write N records of random printable text.",
            rich_help_panel=_MADE,
        ),
    ] = None,
    size: Annotated[
        int,
        typer.Option(
            "--size", metavar="BYTES", min=0, help="How long their values are.", rich_help_panel=_MADE
        ),
    ] = _SIZE,
    keys: Annotated[
        int,
        typer.Option(
            "--keys", metavar="N", min=0, help="How many different keys; 0 for none.", rich_help_panel=_MADE
        ),
    ] = _KEYS,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", help="The same seed writes the same records.", rich_help_panel=_MADE
        ),
    ] = 0,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            help="The partition of all records; keys do not matter.",
            rich_help_panel=_SENT,
        ),
    ] = None,
    compression: Annotated[
        Compression,
        typer.Option("--compression", "-z", help="How batches are compressed.", rich_help_panel=_SENT),
    ] = Compression.NONE,
    acks: Annotated[
        Acks,
        typer.Option(
            "--acks", help="Who must have a record: all replicas, the leader, or none.", rich_help_panel=_SENT
        ),
    ] = Acks.ALL,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            metavar="N",
            min=0.001,
            help="At most this many records a second.",
            rich_help_panel=_SENT,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "-X",
            metavar="NAME=VALUE",
            help="Any other setting of a producer; may be repeated.",
            rich_help_panel=_SENT,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Write records to a topic, and say where they went."""
    try:
        headers = [parse_header(text) for text in header or []]
        style = InputStyle(format_, key_separator, headers, partition, null)
        given = [parse_record(value, style) for value in values or []]
        _check_one_source(given, file, made_up)
        warn_of_visible_secrets(settings or ())
        texts = [*settings_texts(command_config, ProducerSettings), *(settings or ())]
        chosen = _settings(compression, acks, texts)
    except KohortError as error:
        raise refuse(str(error.args[0]), error.hint) from None
    synthetic = (
        None
        if made_up is None
        else Synthetic(count=made_up, size=size, keys=keys, seed=seed, headers=headers, partition=partition)
    )
    is_typed = not given and file is None and synthetic is None and sys.stdin.isatty()
    commentary = Commentary("writing", quiet=quiet or is_typed or bool(given), draws=True)
    if synthetic is not None:
        commentary.expect(min(synthetic.count, limit or synthetic.count))

    async def command(admin: AsyncAdmin) -> int:
        if synthetic is not None:
            rounds = synthetic.rounds()
        elif given:
            rounds = _one_round(given)
        else:
            rounds = records_of(chunks_of(_open(file)), style)
        job = Job(topic=topic, rounds=rounds, settings=chosen, limit=limit, rate=rate, is_typed=is_typed)
        return await _write(
            admin, job, ProduceReceipts(topic, as_json=as_json, commentary=commentary), commentary
        )

    # The producer has the other settings of the file.
    security = {name: value for name, value in chosen.items() if is_security_name(name)}
    talk(ClusterOptions(bootstrap), command, security=security)


def _check_one_source(given: Sequence[InputRecord], file: Path | None, made_up: int | None) -> None:
    if bool(given) + (file is not None) + (made_up is not None) > 1:
        raise InputError(
            "records come from the command line, from a file or from --random",
            hint="give only one of VALUE, --file and --random",
        )


def _settings(compression: Compression, acks: Acks, texts: Sequence[str]) -> dict[str, Any]:
    """What was asked for by name, with the patience of a person; raises InputError, SettingError."""
    chosen: dict[str, Any] = {
        "client_id": "kohort-cli",
        "request_timeout_ms": _REQUEST_MS,
        "delivery_timeout_ms": _DELIVERY_MS,
        "compression_type": compression.value,
        "acks": acks.value if acks is Acks.ALL else int(acks.value),
        **parse_settings(texts, ProducerSettings),
    }
    ProducerSettings.from_kwargs(**chosen)
    return chosen


def _open(file: Path | None) -> int:
    return sys.stdin.fileno() if file is None or str(file) == "-" else os.open(file, os.O_RDONLY)


async def _one_round(records: list[InputRecord]) -> Rounds:
    yield records


# The work


async def _write(admin: AsyncAdmin, job: Job, receipts: ProduceReceipts, commentary: Commentary) -> int:
    """Write it all; whatever ends it, what was written by then is shown."""
    try:
        with commentary:
            try:
                settings = {"max_block_ms": admin.cluster.options.api_timeout_ms, **job.settings}
                async with AsyncProducer.on(admin.cluster, **settings) as producer:
                    await _send_all(producer, job, receipts)
            finally:
                receipts.settle()
        receipts.check()
    finally:
        receipts.show()
        commentary.note(commentary.total() if commentary.records else "nothing was written")
    return OK


async def _send_all(producer: AsyncProducer, job: Job, receipts: ProduceReceipts) -> None:
    pace = None if job.rate is None else Pace(job.rate)
    left = job.limit
    async for records in job.rounds:
        chosen = records if left is None else records[:left]
        for record in chosen:
            if pace is not None:
                await pace.turn()
                receipts.settle()
            delivered = await producer.send(
                job.topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp,
                headers=record.headers,
            )
            receipts.expect(delivered, len(record.key or b"") + len(record.value or b""))
        if job.is_typed:
            await producer.flush()
            receipts.settle()
            receipts.show()
        else:
            delivered.add_done_callback(receipts.settle)
            receipts.settle()
        receipts.check()
        if left is not None and (left := left - len(chosen)) == 0:
            break
