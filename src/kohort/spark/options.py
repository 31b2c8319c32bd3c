"""The options of ``.format("kohort")``: those of Spark's Kafka connector, and a few of our own.

Light on purpose: Spark imports this in four processes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from kohort.spark.client_settings import SettingValue, client_settings
from kohort.spark.errors import OptionError, unknown_option
from kohort.spark.offsets import (
    EARLIEST,
    LATEST,
    Assign,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    FromGroup,
    Latest,
    OffsetsSpec,
    SubscribePattern,
    SubscribeTo,
    Topics,
    check_range,
    parse_offsets,
    parse_partitions,
    show,
)
from kohort.spark.option_table import (
    DRIVER,
    EXECUTOR,
    GROUP_ID,
    INSTANCE_ID,
    OPTIONS,
    SECRETS_ON,
    UNKNOWN_OPTIONS,
)

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"

_KAFKA = "kafka."
_NAMES = {option.name.lower(): option.name for option in OPTIONS}
_WHICH = ("assign", "subscribe", "subscribePattern")
_UNITS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a read was asked for; see ``docs/reference/spark-options.md``."""

    bootstrap: str
    topics: Topics
    starting: OffsetsSpec
    ending: OffsetsSpec = field(default_factory=Latest)
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    group_id: str | None = None
    commit: str = "none"
    offset_reset: str = "latest"
    fail_on_fenced: bool = False
    instance_id: str | None = None
    checkpoint: str | None = None
    isolation_level: str = "read_uncommitted"
    consumer_settings: dict[str, SettingValue] = field(default_factory=dict, hash=False)
    columns: tuple[str, ...] = COLUMNS
    poll_timeout_ms: int | None = None
    offset_retries: int = 3
    offset_retry_ms: int = 10
    metadata_ttl_ms: int = -1
    batch_rows: int = 20_000
    task_offsets: int = 5_000
    push_filters: bool = False

    @property
    def is_member(self) -> bool:
        return self.commit == "member"

    def with_columns(self, columns: tuple[str, ...]) -> "SourceOptions":
        return replace(self, columns=columns)


def parse_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check everything that can be checked without a broker; raises OptionError."""
    given = _Given(options)
    if streaming:
        given.refuse(
            "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", why="a stream has no end"
        )
    else:
        given.refuse("commit", why="a batch query commits nothing: Spark does not tell whether it was used")
    topics = _topics(given)
    group_id, instance_id = given.kafka.pop(GROUP_ID, None), given.kafka.pop(INSTANCE_ID, None)
    commit = _commit(given, group_id) if streaming else "none"
    starting = _place(given, "starting", _default_start(streaming, commit))
    ending = _place(given, "ending", Latest())
    if not streaming:
        _check_bounds(starting, ending)
    if isinstance(starting, FromGroup) and not group_id:
        raise OptionError("startingOffsets=group needs a group", hint='set "kafka.group.id"')
    settings = client_settings(
        given.kafka,
        refuse_unknown=given.refuses_unknown,
        secrets_on=given.one_of(SECRETS_ON, (DRIVER, EXECUTOR), DRIVER),
    )
    return SourceOptions(
        bootstrap=given.bootstrap,
        topics=topics,
        starting=starting,
        ending=ending,
        group_id=group_id,
        commit=commit,
        offset_reset=_reset(given, starting, streaming),
        instance_id=given.text("kohort.instance") or instance_id,
        isolation_level=str(settings.get("isolation_level", "read_uncommitted")),
        consumer_settings=settings,
        **_simple(given),
    )


def check_source_options(options: Mapping[str, str]) -> SourceOptions:
    """The options before Spark has said whether they are for a batch or for a stream; raises OptionError.

    A batch query has no option that a stream does not have, but for those of its end.
    """
    endless = {name: text for name, text in options.items() if not name.lower().startswith("ending")}
    if len(endless) == len(options):
        return parse_source_options(options, streaming=True)
    try:
        return parse_source_options(options, streaming=False)
    except OptionError as error:
        parse_source_options(endless, streaming=True)  # raises what is wrong with a stream, too
        raise _for_neither(error, next(name for name in options if name not in endless)) from None


def _for_neither(of_batch: OptionError, end: str) -> OptionError:
    name = _NAMES.get(end.lower(), end)
    return OptionError(
        f"{name} is for a batch query, which these options are not for: {of_batch.args[0]}",
        hint=f"a stream has no end: leave out {name}, or read a batch with other options",
    )


def _simple(given: "_Given") -> dict[str, Any]:
    """The fields that are one option each."""
    low, high = given.count("minOffsetsPerTrigger"), given.count("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise OptionError(f"minOffsetsPerTrigger ({low}) is higher than maxOffsetsPerTrigger ({high})")
    headers = given.flag("includeHeaders", default=False)
    return {
        "fail_on_data_loss": given.flag("failOnDataLoss", default=True),
        "min_offsets_per_trigger": low,
        "max_offsets_per_trigger": high,
        "max_trigger_delay_ms": given.duration_ms("maxTriggerDelay", default=900_000),
        "min_partitions": given.count("minPartitions"),
        "max_records_per_partition": given.count("maxRecordsPerPartition"),
        "include_headers": headers,
        "columns": (*COLUMNS, HEADERS) if headers else COLUMNS,
        "fail_on_fenced": given.flag("failOnFenced", default=False),
        "checkpoint": given.text("kohort.checkpoint"),
        "poll_timeout_ms": given.count("kafkaConsumer.pollTimeoutMs"),
        "offset_retries": given.integer("fetchOffset.numRetries", default=3),
        "offset_retry_ms": given.integer("fetchOffset.retryIntervalMs", default=10),
        "metadata_ttl_ms": given.integer("partition.metadata.cache.ttl.ms", default=-1),
        "batch_rows": given.count("kohort.batch.rows") or 20_000,
        "task_offsets": given.count("kohort.task.offsets") or 5_000,
        "push_filters": given.flag("kohort.push.filters", default=False),
    }


class _Given:
    """The options by their proper names, whatever case they were written in; ``kafka`` has Kafka's own."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if not options or "provider" in options:
            raise _table()
        self._values: dict[str, str] = {}
        self.kafka: dict[str, str] = {}
        unknown = []
        for name, value in options.items():
            if name.lower() in _NAMES:
                self._values[_NAMES[name.lower()]] = value.strip()
            elif name.lower().startswith(_KAFKA):
                self.kafka[name.lower().removeprefix(_KAFKA)] = value.strip()
            else:
                unknown.append(name)
        self.refuses_unknown = self.one_of(UNKNOWN_OPTIONS, ("refuse", "warn"), "refuse") == "refuse"
        for name in unknown:
            unknown_option(_unknown(name), is_refused=self.refuses_unknown or name.lower() == "path")

    @property
    def bootstrap(self) -> str:
        if not self._values.get("kafka.bootstrap.servers"):
            raise OptionError("there is no broker to ask", hint='set "kafka.bootstrap.servers" to host:port')
        return self._values["kafka.bootstrap.servers"]

    def text(self, name: str) -> str | None:
        return self._values.get(name) or None

    def refuse(self, *names: str, why: str) -> None:
        for name in names:
            if name in self._values:
                raise OptionError(f"{name} cannot be set here", hint=why)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self._values.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise OptionError(f"{name} cannot be {text!r}", hint="it is true or false")
        return text == "true"

    def integer(self, name: str, *, default: int) -> int:
        text = self._values.get(name, str(default))
        try:
            number = int(text)
        except ValueError:
            raise OptionError(f"{name} cannot be {text!r}", hint="it is a whole number") from None
        check_range(f"{name}: {number}", number)
        return number

    def count(self, name: str) -> int | None:
        """A number of something, at least one; None if it was not given."""
        if name not in self._values:
            return None
        number = self.integer(name, default=0)
        if number <= 0:
            raise OptionError(f"{name} must be positive", hint=f"it is {number}")
        return number

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        text = self._values.get(name, default).lower()
        if text not in allowed:
            close = get_close_matches(text, allowed, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it is one of {', '.join(allowed)}"
            raise OptionError(f"{name} cannot be {text!r}", hint=hint)
        return text

    def duration_ms(self, name: str, *, default: int) -> int:
        """A time as Spark writes it: ``15m``, ``500ms``; a bare number counts milliseconds."""
        text = self._values.get(name, f"{default}ms").lower()
        found = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
        if found is None or (found[2] or "ms") not in _UNITS:
            raise OptionError(f"{name} cannot be {text!r}", hint="expected for example 500ms, 30s, 15m, 1h")
        return int(int(found[1]) * _UNITS[found[2] or "ms"])


def _table() -> OptionError:
    """``CREATE TABLE … USING kohort``: Spark gives none of its options to a Python source that reads it."""
    return OptionError(
        "there are no options, or they are those of a table, and Spark does not hand those on",
        hint="use CREATE TEMPORARY VIEW … USING kohort OPTIONS (…) instead of CREATE TABLE",
    )


def _unknown(name: str) -> OptionError:
    if name.lower() == "path":
        return OptionError("a topic is not a path", hint='name topics with the option "subscribe"')
    close = get_close_matches(name.lower(), _NAMES, n=1)
    hint = f"did you mean {_NAMES[close[0]]}?" if close else "see docs/reference/spark-options.md"
    return OptionError(f"there is no option {name!r}", hint=hint)


def _topics(given: _Given) -> Topics:
    chosen = [name for name in _WHICH if given.text(name) is not None]
    if len(chosen) != 1:
        problem = "more than one of them is" if chosen else "none of them is"
        raise OptionError(f"exactly one of {', '.join(_WHICH)} says what to read: {problem} set")
    text = given.text(chosen[0]) or ""
    match chosen[0]:
        case "assign":
            return Assign(parse_partitions("assign", text))
        case "subscribe":
            names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
            if not names:
                raise OptionError(
                    f"subscribe names no topic: {text!r}", hint="expected for example orders,bills"
                )
            return SubscribeTo(names)
        case _:
            return SubscribePattern(_pattern(text))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(
            f"subscribePattern cannot be {text!r}: {error}", hint="it is a regular expression of Python"
        ) from None
    return text


def _commit(given: _Given, group_id: str | None) -> str:
    commit = given.one_of("commit", ("member", "group", "none"), "member" if group_id else "none")
    if commit != "none" and not group_id:
        raise OptionError(f"commit={commit} needs a group", hint='set "kafka.group.id"')
    return commit


def _default_start(streaming: bool, commit: str) -> OffsetsSpec:
    if not streaming:
        return Earliest()
    return FromGroup() if commit == "member" else Latest()


def _reset(given: _Given, starting: OffsetsSpec, streaming: bool) -> str:
    default = "latest" if streaming else "earliest"
    if isinstance(starting, Earliest):
        default = "earliest"  # a member starts at its group's commits, and there without one
    return given.one_of("kohort.offset.reset", ("earliest", "latest"), default)


def _place(given: _Given, side: str, default: OffsetsSpec) -> OffsetsSpec:
    """Where to start or to end; of several options the first wins, as in Spark's connector."""
    or_latest = side == "ending" or (
        given.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest"
    )
    if given.text(f"{side}Timestamp"):
        return AtTimestamp(given.integer(f"{side}Timestamp", default=0), or_latest)
    by_time = f"{side}OffsetsByTimestamp"
    if text := given.text(by_time):
        return AtTimestamps(parse_offsets(by_time, text), or_latest)
    name = f"{side}Offsets"
    text = given.text(name)
    named: dict[str, OffsetsSpec] = {"earliest": Earliest(), "latest": Latest(), "group": FromGroup()}
    if text is None:
        return default
    if text.lower() in named:
        return named[text.lower()]
    offsets = parse_offsets(name, text)
    if odd := [where for where, offset in offsets.items() if offset < EARLIEST]:
        raise OptionError(
            f"{name} of {show(odd)} cannot be {offsets[odd[0]]}",
            hint="-1 stands for latest and -2 for earliest",
        )
    return AtOffsets(offsets)


def _check_bounds(starting: OffsetsSpec, ending: OffsetsSpec) -> None:
    """What makes no sense in a batch query, as far as offsets are known yet."""
    if isinstance(starting, Latest):
        raise OptionError("startingOffsets cannot be latest in a batch query", hint="nothing would be read")
    if isinstance(ending, Earliest | FromGroup):
        raise OptionError("endingOffsets is latest or JSON", hint="records are read up to it")
    if isinstance(starting, AtOffsets):
        _check_none(starting, LATEST, "startingOffsets of {} cannot be latest (-1) in a batch query")
    if isinstance(ending, AtOffsets):
        _check_none(ending, EARLIEST, "endingOffsets of {} cannot be earliest (-2)")
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_order(starting.offsets, ending.offsets, "Offsets")
    if isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        _check_order(starting.timestamps, ending.timestamps, "OffsetsByTimestamp")


def _check_none(place: AtOffsets, forbidden: int, message: str) -> None:
    if found := [where for where, offset in place.offsets.items() if offset == forbidden]:
        raise OptionError(message.format(show(found)))


def _check_order(starts: Mapping[Any, int], ends: Mapping[Any, int], what: str) -> None:
    if starts.keys() != ends.keys():
        odd = show(starts.keys() ^ ends.keys())
        raise OptionError(f"starting{what} and ending{what} must name the same partitions: {odd}")
    for where, start in starts.items():
        if 0 <= ends[where] < start:
            raise OptionError(f"starting{what} of {where} ({start}) is behind ending{what} ({ends[where]})")
