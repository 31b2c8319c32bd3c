"""Every command and every option, by name: what is promised here is what ``--help`` shows."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from kohort import __version__
from kohort.cli.app import command_line, flowing
from kohort.cli.serve.options import OPTIONS

app = command_line()
SHARED = {"--property", "--bootstrap", "-b", "--command-config", "--json", "--help"}
BROKERS = {"--bootstrap", "-b"}
RESOURCE = {"--topic", "--group", "--cluster", "--transactional-id"}
RULE = {"--principal", "--operation", "--host", "--deny", "--prefix", *RESOURCE}
COMMANDS = {
    "": {"--version", "--help", "--install-completion", "--show-completion"},
    "up": {"--port", "--data", "--memory", "--archive", "--no-archive", "--lake", "--no-lake", "--help"},
    "serve": {option.name for option in OPTIONS} | {"--help"},
    "data": {"--help"},
    "data check": {"--json", "--help"},
    "data repair": {"--yes", "--offsets-partitions", "--json", "--help"},
    "topics": {"--help"},
    "topics list": {"--internal", *SHARED},
    "topics describe": {"--all-configs", *SHARED},
    "topics create": {"--partitions", "--replication-factor", "--config", "--if-not-exists", *SHARED},
    "topics alter": {"--partitions", "--config", "--delete-config", *SHARED},
    "topics delete": {"--yes", *SHARED},
    "groups": {"--help"},
    "groups list": {"--state", "--watch", *SHARED},
    "groups describe": {"--all-groups", "--watch", *SHARED},
    "groups members": {"--verbose", "--watch", *SHARED},
    "groups offsets": SHARED,
    "groups state": {"--watch", *SHARED},
    "groups why": {"--last", *SHARED},
    "groups reset-offsets": {
        *("--topic", "--all-topics", "--to-earliest", "--to-latest", "--to-current", "--to-offset"),
        *("--shift-by", "--to-datetime", "--by-duration", "--from-file"),
        *("--execute", "--dry-run", "--export"),
        *SHARED,
    },
    "groups delete": {"--yes", *SHARED},
    "groups delete-offsets": {"--topic", *SHARED},
    "produce": {
        *("--file", "--max", "--format", "--key-separator", "--null", "--header"),
        *("--random", "--size", "--keys", "--seed"),
        *("--partition", "--compression", "--acks", "--rate", "--quiet"),
        *SHARED,
    },
    "consume": {
        *("--pattern", "--from", "--to", "--until-end", "--max", "--timeout", "--partition", "--isolation"),
        *("--group", "--commit", "--no-commit", "--instance", "--assignor"),
        *("--format", "--quiet"),
        *SHARED,
    },
    "cluster": SHARED,
    "cluster status": {"--wait", "--balanced", "--nodes", "--timeout", "--json", "--help"},
    "cluster nodes": {"--json", "--help"},
    "cluster move": {"--topic", "--group", "--timeout", "--json", "--help"},
    "cluster balance": {"--now", "--json", "--help"},
    "cluster drain": {"--json", "--help"},
    "cluster forget": {"--json", "--help"},
    "cluster migrate": {"--json", "--help"},
    "apis": {"--node", *SHARED},
    "pipeline": {"--help"},
    "pipeline archive": {
        *("--topics", "--to", "--group", "--values", "--from", "--trigger", "--once"),
        *(
            "--evolve",
            "--schema",
            "--registry",
            "--max-records-per-trigger",
            "--instance",
            "--master",
            "--memory",
            "--format",
        ),
        *SHARED,
    },
    "pipeline status": {"--to", "--partitions", "--json", "--help"},
    "pipeline compact": {"--to", "--target", "--json", "--help"},
    "pipeline schema": {"--to", "--topic", "--help"},
    "pipeline replay-bad": {"--to", "--evolve", "--registry", "--json", "--help"},
    "pipeline sql": {"--to", "--max", "--json", "--help"},
    "lake": {"--help"},
    "lake backfill": {"--from", "--to", "--samples", "--option", "--master", "--memory", "--format", *SHARED}
    - BROKERS,
    "lake run": {
        *{
            "--from",
            "--to",
            "--trigger",
            "--refresh",
            "--samples",
            "--option",
            "--master",
            "--memory",
            "--format",
            *SHARED,
        }
        - BROKERS
    },
    "lake query": {"--to", "--max", "--json", "--help"},
    "lake report": {"--to", "--out", "--help"},
    "lake whatif": {"--to", "--group", "--set", "--seeds", "--out", "--master", "--json", "--help"},
    "certs dev": {"--out", "--host", "--days", "--force", "--help"},
    "users add": {"--password", "--mechanism", "--iterations", *SHARED} - {"--json"},
    "users remove": {"--mechanism", *SHARED} - {"--json"},
    "users list": SHARED,
    "acls add": RULE | SHARED - {"--json"},
    "acls remove": RULE | SHARED - {"--json"},
    "acls list": {"--principal", *RESOURCE, *SHARED},
    "spark": {"--help"},
    "spark env": {"--master", "--json", "--help"},
    "spark submit": {"--master", "--memory", "--conf", "--packages", "--py-files", "--help"},
}


def options_of_all(command: Any = None, name: str = "kohort") -> Iterator[tuple[str, set[str]]]:  # noqa: ANN401
    """Each command with its options; the program's own if none is given."""
    found = get_command(app) if command is None else command
    if not hasattr(found, "commands"):
        yield name, {option for each in found.params for option in each.opts}
        return
    for word, below in found.commands.items():
        yield from options_of_all(below, f"{name} {word}")


def test_every_command_that_connects_takes_the_settings_of_the_client() -> None:
    """``up`` and ``serve`` connect to no broker but their own, and ``--from`` of ``consume`` is a place."""
    connecting = {name: options for name, options in options_of_all() if {"--bootstrap", "--from"} & options}
    assert len(connecting) > 20
    lacking = [name for name, options in connecting.items() if not {"--command-config", "-X"} <= options]
    assert lacking == []


@cache  # several rules look at the same text
def help_of(command: str, columns: int = 160) -> str:
    environment = {"COLUMNS": str(columns), "TERM": "dumb"}
    words = command.split()
    program = command_line(words[:1]) if words else app  # as the program itself does it
    result = CliRunner().invoke(program, [*words, "--help"], env=environment)
    assert result.exit_code == 0, result.output
    return result.output


def test_no_command_is_left_out_here() -> None:
    assert [name for name, _ in options_of_all() if name.removeprefix("kohort ") not in COMMANDS] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_shows_exactly_its_options(command: str) -> None:
    text = help_of(command)
    shown = {
        word.rstrip(",:")
        for line in text.splitlines()
        if line.lstrip("│ *").startswith("-")
        for word in line.split()
        if word.startswith("--")
    }
    assert shown == {option for option in COMMANDS[command] if option.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_no_type_of_python(command: str) -> None:
    assert re.findall(r"<[^>]*>", help_of(command)) == []


def test_the_usage_names_arguments_as_they_are() -> None:
    assert "Usage: kohort topics create [OPTIONS] TOPIC " in help_of("topics create")
    assert "Usage: kohort produce [OPTIONS] TOPIC [VALUE]... " in help_of("produce")


def test_kafkas_name_of_the_address_is_understood() -> None:
    result = CliRunner().invoke(app, ["groups", "list", "--bootstrap-server", "nowhere:x"])
    assert (result.exit_code, result.stderr[:29]) == (2, "kohort: error: --bootstrap: '")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_breaks_no_word_of_80_columns(command: str) -> None:
    """Each line of a table begins and ends with whole words, also in the column of the values."""
    words = set(re.findall(r"[\w.]+", help_of(command, columns=300)))
    assert set(re.findall(r"[\w.]+", help_of(command, columns=80))) <= words


def test_the_commands_are_listed_in_order_with_serve_among_them() -> None:
    text = help_of("")
    listed = [line.split()[1] for line in text.splitlines() if line.startswith("│ ") and line[2].isalpha()]
    run, use, jobs = (
        ["up", "serve", "data", "certs"],
        ["topics", "groups", "produce", "consume", "users", "acls", "cluster", "apis"],
        ["pipeline", "lake", "spark"],
    )
    assert listed == [*run, *use, *jobs]
    assert "Run a broker" in text


@pytest.mark.parametrize("command", [command for command in COMMANDS if "--bootstrap" in COMMANDS[command]])
def test_the_variable_for_the_address_is_named_where_it_counts(command: str) -> None:
    assert "KOHORT_BOOTSTRAP" in help_of(command)


def test_paragraphs_of_help_are_broken_where_the_terminal_ends_and_nowhere_else() -> None:
    assert (
        flowing("""One line.

    Two lines
    of source.
    """)
        == "One line.\n\nTwo lines of source."
    )
    assert "With --group it is a member: it shares the partitions" in help_of("consume")


def test_the_version_can_be_asked_for_anywhere() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"kohort {__version__}\n"


def test_the_help_of_serve_names_the_choices_the_defaults_and_examples() -> None:
    text = help_of("serve")
    for option in OPTIONS:
        assert ", ".join(option.choices) in text
        assert option.default is None or f"[default: {option.default}]" in text
    assert "kohort serve --listen 127.0.0.1:0 --memory" in text


def test_serve_through_the_framework_is_the_same_serve() -> None:
    arguments = ["serve", "--memory", "--set", "num.partitions=none", "--node-id", "7"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--set num.partitions=none: Not a number" in result.output


def test_a_pattern_that_is_none_is_refused_before_spark_starts() -> None:
    options = ["--topics", "shop[", "--to", "nowhere", "--group", "g"]
    result = CliRunner().invoke(app, ["pipeline", "archive", *options])
    assert result.exit_code == 2
    assert "--topics: 'shop[' is not a regular expression: unterminated character set" in result.output


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kohort ", {"up", "serve", "topics"}),
        ("kohort serve --fs", {"--fsync", "--fsync-internal", "--fsync-interval-ms"}),
        ("kohort serve --fsync ", {"never", "interval", "commit"}),
        ("kohort produce t --compression ", {"gzip", "zstd"}),
        ("kohort topics ", {"list", "create"}),
    ],
)
def test_the_shell_can_complete_commands_options_and_choices(words: str, offered: set[str]) -> None:
    variables = {
        "_KOHORT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    result = CliRunner().invoke(app, [], env=variables, prog_name="kohort")
    assert offered <= set(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["groups", "lst"],
            "No such command 'lst'. Did you mean 'list'? (`kohort groups --help` shows the usage)",
        ),
        (
            ["cluster", "status"],
            "Missing argument 'URL' (or set KOHORT_CLUSTER; `kohort cluster status --help` shows the usage)",
        ),
        (["nope"], "No such command 'nope' (`kohort --help` shows the usage)"),
    ],
)
def test_a_usage_error_is_one_line_like_any_other_error(arguments: list[str], line: str) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="kohort")
    assert (result.exit_code, result.stderr) == (2, f"kohort: error: {line}\n")
