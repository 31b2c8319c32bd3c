"""The options of ``kohort serve``: one table for the parser, the help, the page and the completion.

Nothing heavy is imported before the options are known to be right.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kohort.cli.running import UsageError
from kohort.client.addresses import AddressError, parse_address
from kohort.security.listeners import NamedAddress

if TYPE_CHECKING:
    from kohort.broker.settings import Settings
    from kohort.security.secret import Secret

POLICIES = ("never", "interval", "commit")
LOG_FORMATS = ("human", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
DEFAULT_DATA = "kohort-data"
DEFAULT_LISTEN = "127.0.0.1:9092"

# Kafka's names for what has an option of its own here.
_OWN_OPTIONS = {
    "broker.id": "--node-id",
    "node.id": "--node-id",
    "listeners": "--listen",
    "advertised.listeners": "--advertise",
    "log.dir": "--data",
    "log.dirs": "--data",
}

DESCRIPTION = "Run a broker in the foreground. It says where it listens on one line, and logs to stderr."
EXAMPLES = """\
Examples:
kohort serve                                     # durable, on 127.0.0.1:9092
kohort serve --listen 127.0.0.1:0 --memory       # throw-away, on a free port
kohort serve --listen 0.0.0.0:9092 --advertise broker.example:9092
kohort serve --cluster postgresql://kohort@db/app   # a node; start several
"""


class ServeOption(NamedTuple):
    """One option; ``repeated`` ones gather into a list, a ``flag`` takes no value."""

    name: str
    help: str
    metavar: str = ""
    default: str | int | None = None
    choices: tuple[str, ...] = ()
    flag: bool = False
    repeated: bool = False

    @property
    def attribute(self) -> str:
        return self.name.removeprefix("--").replace("-", "_")


OPTIONS = (
    ServeOption(
        "--listen",
        "Listen on this address; port 0 takes a free port. For another protocol than PLAINTEXT write "
        "PROTOCOL://HOST:PORT, where PROTOCOL is SSL, SASL_PLAINTEXT, SASL_SSL or the name of a listener. "
        "May be repeated.",
        "HOST:PORT",
        DEFAULT_LISTEN,
        repeated=True,
    ),
    ServeOption(
        "--advertise",
        "Give clients this address instead of the one that the broker listens on. May be repeated.",
        "HOST:PORT",
        repeated=True,
    ),
    ServeOption(
        "--insecure",
        "Allow listeners and settings that expose passwords or records to the network.",
        flag=True,
    ),
    ServeOption("--data", "Directory of the data; it is made if it does not exist.", "DIR", DEFAULT_DATA),
    ServeOption("--memory", "Keep everything in memory, and nothing when it stops.", flag=True),
    ServeOption(
        "--cluster",
        "Be a node of a cluster whose data is in PostgreSQL: postgresql://USER@HOST/DATABASE, with "
        "?schema=NAME for another schema than kohort, or @FILE with that in it. The password may be in "
        "PGPASSWORD or in a passfile.",
        "URL",
    ),
    ServeOption(
        "--fsync",
        "When records are forced to disk (they are always written first).",
        "WHEN",
        "interval",
        POLICIES,
    ),
    ServeOption(
        "--fsync-internal",
        "When committed offsets and groups are forced to disk.",
        "WHEN",
        "commit",
        POLICIES,
    ),
    ServeOption("--fsync-interval-ms", "Milliseconds between two rounds of `interval`.", "MS", 1_000),
    ServeOption("--node-id", "Number of this broker. Default: 1; in a cluster the lowest free number.", "N"),
    ServeOption(
        "--set",
        "A broker setting by its Kafka name, e.g. num.partitions=3. May be repeated.",
        "NAME=VALUE",
        repeated=True,
    ),
    ServeOption(
        "--user",
        "A user who can log in; it is added if it does not exist. The password is in FILE. May be repeated.",
        "NAME:@FILE",
        repeated=True,
    ),
    ServeOption("--log-format", "How log lines look.", "FORMAT", "human", LOG_FORMATS),
    ServeOption("--log-level", "The least important lines to log.", "LEVEL", "info", LOG_LEVELS),
)


_DEFAULTS = {option.attribute: option.default for option in OPTIONS}


class ServeOptions(NamedTuple):
    """What the command line said, checked as far as the broker's code is not needed for it."""

    listen: tuple[NamedAddress, ...]
    advertise: tuple[NamedAddress, ...]
    insecure: bool
    data: str | None  # None keeps everything in memory, or in the cluster
    cluster: str | None  # a URL, which may hold a password
    fsync: str
    fsync_internal: str
    fsync_interval_ms: int
    node_id: int | None  # None: the lowest that is free in the cluster
    settings: dict[str, str]
    users: "dict[str, Secret]"
    log_format: str
    log_level: str

    def __repr__(self) -> str:
        return f"ServeOptions({self.listen})"  # settings and URL may hold passwords


class _Parser(argparse.ArgumentParser):
    """Reports errors as exceptions, so that all of them look alike."""

    def error(self, message: str) -> NoReturn:
        words = message.replace("unrecognized arguments:", "No such option:").removeprefix("argument ")
        raise UsageError(words, hint="`kohort serve --help` shows the usage")


def parse(arguments: Sequence[str]) -> ServeOptions:
    """The options; raises UsageError. ``--help`` is not among them: ``main`` has seen to it."""
    parser = _build_parser()
    given = parser.parse_args(arguments)
    if given.memory and given.data is not None:
        raise UsageError("--memory and --data exclude each other", hint="data is either kept or not")
    if given.fsync_interval_ms < 1:
        raise UsageError("--fsync-interval-ms must be at least 1", hint="--fsync never switches it off")
    if given.cluster is not None:
        _check_cluster(given)
    is_kept = not given.memory and given.cluster is None
    return ServeOptions(
        listen=tuple(_address("--listen", text) for text in given.listen or [DEFAULT_LISTEN]),
        advertise=tuple(_address("--advertise", text) for text in given.advertise),
        insecure=given.insecure,
        data=given.data or DEFAULT_DATA if is_kept else None,
        cluster=None if given.cluster is None else cluster_url(given.cluster),
        fsync=given.fsync,
        fsync_internal=given.fsync_internal,
        fsync_interval_ms=given.fsync_interval_ms,
        node_id=_node_id(given.node_id, is_shared=given.cluster is not None),
        settings=dict(_split(text) for text in given.set),
        users=dict(_user(text) for text in given.user),
        log_format=given.log_format,
        log_level=given.log_level,
    )


def _check_cluster(given: argparse.Namespace) -> None:
    fsync = ("fsync", "fsync_internal", "fsync_interval_ms")
    changed = [name for name in fsync if getattr(given, name) != _DEFAULTS[name]]
    for option in [name for name in ("memory", "data") if getattr(given, name)] + changed:
        raise UsageError(
            f"--cluster and --{option.replace('_', '-')} exclude each other",
            hint="a node of a cluster keeps nothing on its disk: all of it is in the database",
        )


def cluster_url(text: str) -> str:
    if not text.startswith("@"):
        return text
    from pathlib import Path

    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--cluster: {text[1:]} cannot be read: {error}") from None


def _node_id(text: str | None, *, is_shared: bool) -> int | None:
    if text is None or (text == "auto" and is_shared):
        return None if is_shared else 1
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 31:
        hint = "a number, or auto: the lowest that is free" if is_shared else "a number from 0 on"
        raise UsageError(f"--node-id cannot be {text!r}", hint=hint)
    return int(text)


def _build_parser() -> _Parser:
    parser = _Parser(prog="kohort serve", add_help=False, allow_abbrev=False)
    for option in OPTIONS:
        if option.flag:
            parser.add_argument(option.name, action="store_true")
        elif option.repeated:
            parser.add_argument(option.name, action="append", default=[])
        else:
            parser.add_argument(
                option.name,
                # The directory has its default put in later: given or not makes a difference to --memory.
                default=None if option.name == "--data" else option.default,
                type=int if isinstance(option.default, int) else str,
                choices=option.choices or None,
            )
    return parser


def _address(option: str, text: str) -> NamedAddress:
    name, _, address = text.rpartition("://")
    try:
        return NamedAddress(name.strip().upper(), *parse_address(address))
    except AddressError as error:
        raise UsageError(f"{option}: {error.args[0]}", hint=error.hint) from None


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--set {text!r} is not NAME=VALUE", hint="for example --set num.partitions=3")
    return name.strip(), value.strip()


def _user(text: str) -> "tuple[str, Secret]":
    from kohort.security.secret import Secret

    name, colon, password = text.partition(":")
    if not name or not colon or not password:
        raise UsageError("--user is not NAME:@FILE", hint="write the password into FILE, and chmod 600 FILE")
    return name, Secret.parse(password)


def broker_settings(options: ServeOptions) -> "Settings":
    """The broker's settings, with Kafka's own ones checked; raises UsageError. Loads the broker's code."""
    from pathlib import Path

    from kohort.broker.settings import Settings
    from kohort.log.log import SyncPolicy
    from kohort.security.listeners import ListenerError, build_listeners

    for name, value in options.settings.items():
        check_setting(name, value)
    overrides = _revealed(options)
    try:
        listeners = build_listeners(options.listen, options.advertise, options.settings)
    except ListenerError as error:
        raise UsageError(f"--listen: {error.args[0]}", hint=error.hint) from None
    return Settings(
        listeners=listeners,
        insecure=options.insecure,
        node_id=options.node_id,
        data=None if options.data is None else Path(options.data),
        cluster=options.cluster,
        fsync=SyncPolicy(options.fsync),
        fsync_internal=SyncPolicy(options.fsync_internal),
        fsync_interval_ms=options.fsync_interval_ms,
        overrides=overrides,
        users=options.users,
    )


def _revealed(options: ServeOptions) -> dict[str, str]:
    """The settings, with secrets read from the files and variables that ``@FILE`` and ``env:NAME`` name."""
    import logging

    from kohort.broker.configs import ConfigType, find_broker_config
    from kohort.security.secret import Secret, SecretError

    found = dict(options.settings)
    visible = [f"--user {name}" for name, password in options.users.items() if password.is_literal]
    for name, value in options.settings.items():
        key = find_broker_config(name)
        if key is None or key.type is not ConfigType.PASSWORD:
            continue
        secret = Secret.parse(value)
        if secret.is_literal:
            visible.append(f"--set {name}")
        try:
            found[name] = secret.reveal()
        except SecretError as error:
            raise UsageError(f"--set {name}: {error.args[0]}", hint=error.hint) from None
    for option in visible:
        advice = "other users can see it in the list of processes; use @FILE or env:NAME"
        logging.getLogger("kohort.serve").warning("%s: %s", option, advice)
    return found


def check_setting(name: str, value: str) -> None:
    """Raise UsageError for a setting that has an option of its own, or a value that it cannot have."""
    from kohort.broker.configs import find_broker_config

    if name in _OWN_OPTIONS:
        raise UsageError(f"--set {name}: this has an option of its own", hint=f"use {_OWN_OPTIONS[name]}")
    key = find_broker_config(name)
    wrong = None if key is None else key.check(value)  # one that is not known is a warning at the start
    if key is not None and wrong is not None:
        raise UsageError(f"--set {name}={value}: {wrong}", hint=f"its default is {key.default or 'empty'}")
