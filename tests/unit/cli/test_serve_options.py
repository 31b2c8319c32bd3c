"""The options of ``kohort serve``."""

from pathlib import Path

import pytest

from kohort.broker.configs import BROKER_CONFIGS
from kohort.broker.settings import Settings
from kohort.cli.serve_options import OPTIONS, POLICIES, UsageError, broker_settings, parse
from kohort.client.addresses import Address
from kohort.log.log import SyncPolicy


def settings_of(*arguments: str) -> Settings:
    return broker_settings(parse(arguments))


def test_without_options_it_is_a_durable_broker_on_the_usual_port() -> None:
    settings = settings_of()
    assert (settings.host, settings.port) == ("127.0.0.1", 9092)
    assert (settings.advertised_host, settings.advertised_port) == (None, None)
    assert settings.data == Path("kohort-data")
    assert settings.node_id == 1


def test_the_defaults_are_those_of_the_broker_apart_from_the_directory() -> None:
    defaults = Settings()
    settings = settings_of("--memory")
    assert settings == defaults


def test_every_option_reaches_the_broker() -> None:
    settings = settings_of(
        "--listen", "0.0.0.0:0", "--advertise", "[::1]:7", "--data", "here", "--fsync", "commit",
        "--fsync-internal", "never", "--fsync-interval-ms", "5", "--node-id", "7",
        "--set", "num.partitions=3", "--set", "log.retention.ms = -1",
    )  # fmt: skip
    assert settings == Settings(
        host="0.0.0.0",
        port=0,
        advertised_host="::1",
        advertised_port=7,
        data=Path("here"),
        fsync=SyncPolicy.COMMIT,
        fsync_internal=SyncPolicy.NEVER,
        fsync_interval_ms=5,
        node_id=7,
        overrides={"num.partitions": "3", "log.retention.ms": "-1"},
    )


def test_logging_has_its_options_too() -> None:
    options = parse(["--log-format", "json", "--log-level", "debug", "--listen", "h"])
    assert (options.log_format, options.log_level) == ("json", "debug")
    assert options.listen == Address("h", 9092)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "host:x"], "--listen: 'host:x' is no address"),
        (["--advertise", ":1"], "--advertise: ':1' is no address"),
        (["--memory", "--data", "d"], "exclude each other"),
        (["--fsync", "sometimes"], "invalid choice: 'sometimes'"),
        (["--fsync-interval-ms", "0"], "at least 1"),
        (["--node-id", "-1"], "must not be negative"),
        (["--node-id", "one"], "invalid int value"),
        (["--set", "num.partitions"], "is not NAME=VALUE"),
        (["--set", "num.partitions=zero"], "Not a number (its default is 1)"),
        (["--set", "log.dirs=/x"], "use --data"),
        (["--set", "listeners=x"], "use --listen"),
        (["--lis", "h:1"], "unrecognized arguments"),
        (["--bogus"], "`kohort serve --help` lists the options"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(*arguments)
    assert message in str(caught.value)


def test_the_help_names_every_option_its_choices_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert f"{option.name} {option.metavar}".strip() in text
        assert option.default is None or f"default: {option.default}]" in text
        assert " | ".join(option.choices) in text


def test_the_policies_offered_are_those_of_the_log() -> None:
    assert {policy.value for policy in SyncPolicy} == set(POLICIES)


def test_every_default_of_a_broker_setting_may_be_set() -> None:
    given = [f"--set={name}={key.default}" for name, key in BROKER_CONFIGS.items()]
    assert len(settings_of(*given).overrides) == len(BROKER_CONFIGS)
