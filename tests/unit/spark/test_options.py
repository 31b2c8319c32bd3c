"""Options of the source: what they mean, what they default to, and what is refused."""

import pytest

from kohort.spark.errors import OptionError
from kohort.spark.offsets import (
    Assign,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    FromGroup,
    Latest,
    SubscribePattern,
    SubscribeTo,
    topic_partition,
)
from kohort.spark.option_table import OPTIONS
from kohort.spark.options import COLUMNS, SourceOptions, check_source_options, parse_source_options

BASIC = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}
A0 = topic_partition("a", 0)


def stream(**options: str) -> SourceOptions:
    return parse_source_options(BASIC | options, streaming=True)


def batch(**options: str) -> SourceOptions:
    return parse_source_options(BASIC | options, streaming=False)


def dotted(name: str, value: str) -> dict[str, str]:
    return {name: value}


def test_a_stream_starts_at_the_end_and_a_batch_reads_everything() -> None:
    assert stream().starting == Latest()
    assert (batch().starting, batch().ending) == (Earliest(), Latest())


def test_the_defaults_are_those_of_the_connector() -> None:
    options = stream()
    assert options.fail_on_data_loss
    assert options.max_trigger_delay_ms == 15 * 60 * 1_000
    assert (options.offset_retries, options.offset_retry_ms, options.metadata_ttl_ms) == (3, 10, -1)
    assert options.columns == COLUMNS
    assert (options.group_id, options.commit) == (None, "none")
    assert options.isolation_level == "read_uncommitted"


def test_names_are_the_same_in_any_case() -> None:
    shouted = {name.upper(): value for name, value in BASIC.items()} | {"STARTINGOFFSETS": "Earliest"}
    assert parse_source_options(shouted, streaming=True).starting == Earliest()


def test_topics_are_split_at_commas_without_blanks_and_repetitions() -> None:
    assert stream(subscribe=" b, a,,b ").topics == SubscribeTo(("b", "a"))


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ({"subscribePattern": "order.*"}, SubscribePattern("order.*")),
        ({"assign": '{"a":[1,0]}'}, Assign((A0, topic_partition("a", 1)))),
    ],
)
def test_there_are_three_ways_to_name_topics(given: dict[str, str], topics: object) -> None:
    bootstrap = {"kafka.bootstrap.servers": "here:9092"}
    assert parse_source_options(bootstrap | given, streaming=True).topics == topics


@pytest.mark.parametrize("extra", [{"subscribePattern": "x"}, {"assign": '{"a":[0]}'}])
def test_only_one_of_them_may_be_given(extra: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="exactly one of assign, subscribe, subscribePattern"):
        stream(**extra)


def test_one_of_them_must_be_given() -> None:
    with pytest.raises(OptionError, match="none of them is set"):
        parse_source_options({"kafka.bootstrap.servers": "here:9092"}, streaming=True)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"provider": "kohort", "option.subscribe": "a", "subscribe": "a", "owner": "me"},
    ],
    ids=["used", "created"],
)
def test_a_table_whose_options_spark_would_forget_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="use CREATE TEMPORARY VIEW"):
        check_source_options(given)


def test_a_broker_must_be_named() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        parse_source_options({"subscribe": "a"}, streaming=False)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"startingOffsets": "earliest"}, Earliest()),
        ({"startingOffsets": '{"a":{"0":-2}}'}, AtOffsets({A0: -2})),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":7}}', "startingOffsets": "earliest"},
            AtTimestamps({A0: 7}),
        ),
        ({"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"a":{"0":7}}'}, AtTimestamp(5)),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "LATEST"},
            AtTimestamp(5, or_latest=True),
        ),
    ],
)
def test_of_several_places_to_start_the_most_general_time_wins(given: dict[str, str], place: object) -> None:
    assert stream(**given).starting == place


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"endingOffsets": '{"a":{"0":5}}'}, AtOffsets({A0: 5})),
        ({"endingTimestamp": "9", "endingOffsets": "latest"}, AtTimestamp(9, or_latest=True)),
        ({"endingOffsetsByTimestamp": '{"a":{"0":9}}'}, AtTimestamps({A0: 9}, or_latest=True)),
    ],
)
def test_a_batch_may_end_at_offsets_or_times(given: dict[str, str], place: object) -> None:
    assert batch(**given).ending == place
    assert check_source_options(BASIC | given).ending == place, "only a batch has an end"


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_there_are_no_offsets_below_the_beginning(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} of a-0 cannot be -3"):
        batch(**{name: '{"a":{"0":-3}}'})


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"a":{"0":-1}}'},
        {"commit": "group", "kafka.group.id": "g"},
    ],
)
def test_an_end_beside_options_of_a_stream_is_what_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"endingOffsets is for a batch query.*a stream has no end"):
        check_source_options(BASIC | given | {"endingoffsets": "latest"})


def test_what_is_wrong_for_streams_and_batches_alike_is_said_as_it_is() -> None:
    with pytest.raises(OptionError, match="minPartitions must be positive"):
        check_source_options(BASIC | {"minPartitions": "0", "endingOffsets": "latest"})


def test_options_that_do_not_exist_are_ignored_with_a_warning_if_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"startingOfsets": "latest", "kafka.fetch.max.bites": "1", "kohort.unknown.options": "warn"}
    assert stream(**given) == stream(**{"kohort.unknown.options": "warn"})
    assert "there is no option 'startingOfsets': it is ignored" in caplog.text
    assert "a consumer has no setting 'fetch.max.bites': it is ignored" in caplog.text


@pytest.mark.parametrize(
    "given",
    [{"kafka.key.deserializer": "x"}, {"startingOffsets": "soon"}, {"path": "x"}, {"minPartitions": "0"}],
)
def test_what_exists_and_cannot_be_is_refused_all_the_same(given: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        stream(**given, **{"kohort.unknown.options": "warn"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} cannot be set here"):
        stream(**{name: "1"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "a-0 cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets is latest or JSON"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "a-0 cannot be earliest"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'}, "a-0 .5. is behind"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":9}}'}, "same partitions: a-0, a-1"),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "endingOffsetsByTimestamp": '{"a":{"0":4}}'},
            "startingOffsetsByTimestamp of a-0",
        ),
        ({"commit": "group"}, "commit cannot be set here"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        batch(**given)


def test_limits_of_streams_are_taken_and_not_used_in_a_batch_as_in_the_connector() -> None:
    assert batch(maxOffsetsPerTrigger="5").max_offsets_per_trigger == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"maxOffsetsPerTrigger": "many"}, "it is a whole number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"minOffsetsPerTrigger \(9\) is higher"),
        ({"failOnDataLoss": "maybe"}, "it is true or false"),
        ({"maxTriggerDelay": "soon"}, "expected for example 500ms"),
        ({"maxTriggerDelay": "5 parsecs"}, "expected for example 500ms"),
        ({"startingOffsets": "[1]"}, "expected for example"),
        ({"startingOffsets": '{"a":{"0":"x"}}'}, "expected for example"),
        ({"startingOffsets": '{"a":{"0":9223372036854775808}}'}, "of a-0 is beyond the 64 bits"),
        ({"maxOffsetsPerTrigger": "9223372036854775808"}, "beyond the 64 bits"),
        ({"startingTimestamp": "-9223372036854775809"}, "beyond the 64 bits"),
        ({"startingOffsets": "lattest"}, "startingOffsets cannot be 'lattest'"),
        ({"startingOffsetsByTimestampStrategy": "errror"}, "did you mean error"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startngOffsets": "earliest"}, "did you mean startingOffsets"),
        ({"includeheader": "true"}, "did you mean includeHeaders"),
        ({"path": "orders"}, 'name topics with the option "subscribe"'),
        ({"mode": "x"}, "there is no option 'mode'"),
    ],
)
def test_what_cannot_be_is_refused_with_advice(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stream(**given)


def test_a_bad_pattern_is_refused() -> None:
    given = {"kafka.bootstrap.servers": "here:9092", "subscribePattern": "a("}
    with pytest.raises(OptionError, match="it is a regular expression of Python"):
        parse_source_options(given, streaming=True)


@pytest.mark.parametrize("text", ["[]", '{"a":0}', '{"a":["x"]}', "a", "{}"])
def test_partitions_to_assign_are_json(text: str) -> None:
    with pytest.raises(OptionError, match="expected for example"):
        parse_source_options({"kafka.bootstrap.servers": "here:9092", "assign": text}, streaming=True)


@pytest.mark.parametrize(
    ("text", "millis"), [("250", 250), ("500ms", 500), ("30s", 30_000), ("2 min", 120_000), ("1h", 3_600_000)]
)
def test_a_delay_is_written_as_spark_writes_times(text: str, millis: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == millis


def test_headers_are_a_column_when_they_are_asked_for() -> None:
    assert stream(includeHeaders="true").columns == (*COLUMNS, "headers")
    assert check_source_options(BASIC | {"includeheaders": "TRUE"}).columns == (*COLUMNS, "headers")
    assert check_source_options(BASIC).columns == COLUMNS


# --- groups -----------------------------------------------------------------------------------


def test_a_stream_with_a_group_is_a_member_and_starts_where_the_group_is() -> None:
    options = stream(**dotted("kafka.group.id", "billing"))
    assert options.is_member
    assert (options.group_id, options.starting, options.offset_reset) == ("billing", FromGroup(), "latest")


def test_a_member_that_names_a_start_begins_there_without_a_commit() -> None:
    options = stream(startingOffsets="earliest", **dotted("kafka.group.id", "billing"))
    assert (options.starting, options.offset_reset) == (Earliest(), "earliest")


def test_a_group_can_be_told_of_offsets_without_a_member() -> None:
    options = stream(commit="GROUP", **dotted("kafka.group.id", "billing"))
    assert not options.is_member
    assert (options.commit, options.starting) == ("group", Latest())


def test_a_batch_reads_from_where_the_group_is() -> None:
    options = batch(startingOffsets="group", **dotted("kafka.group.id", "billing"))
    assert (options.starting, options.offset_reset, options.commit) == (FromGroup(), "earliest", "none")


def test_the_reset_can_be_chosen() -> None:
    options = batch(startingOffsets="group", **{"kafka.group.id": "billing", "kohort.offset.reset": "latest"})
    assert options.offset_reset == "latest"


@pytest.mark.parametrize("given", [{"commit": "group"}, {"commit": "member"}, {"startingOffsets": "group"}])
def test_what_needs_a_group_says_so(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="needs a group"):
        stream(**given)


def test_an_instance_is_named_by_either_option() -> None:
    group = dotted("kafka.group.id", "billing")
    assert stream(**group, **dotted("kohort.instance", "one")).instance_id == "one"
    assert stream(**group, **dotted("kafka.group.instance.id", "two")).instance_id == "two"


def test_every_option_of_the_table_is_known_to_the_parser() -> None:
    names = [option.name for option in OPTIONS]
    assert len(names) == len({name.lower() for name in names})
    for name in names:
        with pytest.raises(OptionError) as refused:
            parse_source_options({name: "?"}, streaming=True)
        assert "there is no option" not in str(refused.value)
