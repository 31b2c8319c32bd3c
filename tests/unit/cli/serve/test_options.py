"""The options of ``kohort serve``."""

from dataclasses import replace
from pathlib import Path

import pytest

from kohort.broker.configs import BROKER_CONFIGS
from kohort.broker.settings import Settings
from kohort.cli.running import UsageError
from kohort.cli.serve.options import POLICIES, broker_settings, parse
from kohort.log.log import SyncPolicy
from kohort.security.listeners import Listener, NamedAddress, SecurityProtocol


def settings_of(*arguments: str) -> Settings:
    return broker_settings(parse(arguments))


def test_without_options_it_is_a_durable_broker_on_the_usual_port() -> None:
    settings = settings_of()
    (listener,) = settings.listeners
    assert (str(listener), listener.is_bare) == ("PLAINTEXT://127.0.0.1:9092", True)
    assert (listener.advertised_host, listener.advertised_port) == ("127.0.0.1", 0)
    assert settings.data == Path("kohort-data")
    assert settings.node_id == 1


def test_the_defaults_are_those_of_the_broker_apart_from_the_directory() -> None:
    defaults = Settings()
    settings = settings_of("--memory")
    assert settings.endpoints() == defaults.endpoints()
    assert replace(settings, listeners=()) == defaults


def test_every_option_reaches_the_broker() -> None:
    settings = settings_of(
        "--listen", "0.0.0.0:0", "--advertise", "[::1]:7", "--data", "here", "--fsync", "commit",
        "--fsync-internal", "never", "--fsync-interval-ms", "5", "--node-id", "7",
        "--set", "num.partitions=3", "--set", "log.retention.ms = -1", "--insecure",
    )  # fmt: skip
    assert settings == Settings(
        listeners=(Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "0.0.0.0", 0, "::1", 7, is_bare=True),),
        insecure=True,
        data=Path("here"),
        fsync=SyncPolicy.COMMIT,
        fsync_internal=SyncPolicy.NEVER,
        fsync_interval_ms=5,
        node_id=7,
        overrides={"num.partitions": "3", "log.retention.ms": "-1"},
    )


def test_a_node_of_a_cluster_has_no_directory_and_finds_its_number_itself(tmp_path: Path) -> None:
    settings = settings_of("--cluster", "postgresql://h/d?schema=s")
    assert (settings.cluster, settings.data, settings.node_id) == ("postgresql://h/d?schema=s", None, None)
    assert settings_of("--cluster", "postgresql://h/d", "--node-id", "auto").node_id is None
    assert settings_of("--cluster", "postgresql://h/d", "--node-id", "7").node_id == 7
    file = tmp_path / "url"
    file.write_text("postgresql://u:secret@h/d\n")
    settings = settings_of("--cluster", f"@{file}")
    assert settings.cluster == "postgresql://u:secret@h/d"
    assert "secret" not in repr(settings)


def test_logging_has_its_options_too() -> None:
    options = parse(["--log-format", "json", "--log-level", "debug", "--listen", "h"])
    assert (options.log_format, options.log_level) == ("json", "debug")
    assert options.listen == (NamedAddress("", "h", 9092),)


def test_several_listeners_have_their_own_protocol_and_advertised_address() -> None:
    settings = settings_of(
        "--listen", "SSL://127.0.0.1:1", "--listen", "sasl_ssl://[::1]:2", "--listen", "127.0.0.1:3",
        "--advertise", "SASL_SSL://kafka.example:9",
    )  # fmt: skip
    told = [(str(one), one.advertised_host, one.advertised_port) for one in settings.listeners]
    assert told == [
        ("SSL://127.0.0.1:1", "127.0.0.1", 0),
        ("SASL_SSL://[::1]:2", "kafka.example", 9),
        ("PLAINTEXT://127.0.0.1:3", "127.0.0.1", 0),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "host:x"], "--listen: 'host:x' is not an address"),
        (["--listen", "TLS://host:1"], "listener TLS has no security protocol"),
        (["--advertise", ":1"], "--advertise: ':1' is not an address"),
        (["--memory", "--data", "d"], "exclude each other"),
        (["--fsync", "sometimes"], "invalid choice: 'sometimes'"),
        (["--fsync-interval-ms", "0"], "at least 1"),
        (["--node-id", "-1"], "--node-id cannot be '-1'"),
        (["--node-id", "one"], "--node-id cannot be 'one'"),
        (["--node-id", "auto"], "--node-id cannot be 'auto'"),
        (["--cluster", "postgresql://h/d", "--node-id", "x"], "the lowest that is free"),
        (["--cluster", "postgresql://h/d", "--data", "d"], "--cluster and --data exclude each other"),
        (["--cluster", "postgresql://h/d", "--memory"], "--cluster and --memory exclude each other"),
        (["--cluster", "postgresql://h/d", "--fsync", "never"], "--cluster and --fsync exclude each other"),
        (["--cluster", "@/missing"], "--cluster: /missing cannot be read"),
        (["--set", "num.partitions"], "is not NAME=VALUE"),
        (["--set", "num.partitions=zero"], "Not a number (its default is 1)"),
        (["--set", "log.dirs=/x"], "use --data"),
        (["--set", "listeners=x"], "use --listen"),
        (["--lis", "h:1"], "No such option: --lis h:1"),
        (["--bogus"], "`kohort serve --help` shows the usage"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(*arguments)
    assert message in str(caught.value)


def test_the_policies_offered_are_those_of_the_log() -> None:
    assert {policy.value for policy in SyncPolicy} == set(POLICIES)


def test_every_default_of_a_broker_setting_may_be_set() -> None:
    given = [f"--set={name}={key.default}" for name, key in BROKER_CONFIGS.items()]
    assert len(settings_of(*given).overrides) == len(BROKER_CONFIGS)


def test_secrets_of_settings_may_be_in_files_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key.password"
    file.write_text("from a file\n")
    file.chmod(0o600)
    monkeypatch.setenv("STORE_KEY", "from a variable")
    settings = settings_of(
        "--set", f"ssl.key.password=@{file}",
        "--set", "listener.name.x.ssl.keystore.key=env:STORE_KEY",
        "--set", "super.users=@is not a secret",
    )  # fmt: skip
    assert settings.overrides == {
        "ssl.key.password": "from a file",
        "listener.name.x.ssl.keystore.key": "from a variable",
        "super.users": "@is not a secret",
    }
    assert caplog.text == ""


def test_a_secret_on_the_command_line_is_warned_of_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_of("--set", "ssl.key.password=canary", "--user", "alice:canary")
    assert settings.overrides == {"ssl.key.password": "canary"}
    assert caplog.text.count("other users can see it in the list of processes") == 2
    assert "canary" not in caplog.text + repr(settings)


def test_a_secret_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UsageError, match=r"--set ssl\.key\.password: cannot read the file /no/such"):
        settings_of("--set", "ssl.key.password=@/no/such")
