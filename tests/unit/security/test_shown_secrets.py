"""No class that may hold a secret shows it: a traceback with local variables prints their representations."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kohort
from kohort.cli.serve.options import parse
from kohort.lake.landing import SourceCluster
from kohort.security.bearer import read_client_initial
from kohort.security.secret import Secret
from kohort.spark.options import parse_source_options
from kohort.spark.sink_options import parse_sink_options

CANARY = "canary-of-a-secret"
MAY_HOLD_ONE = re.compile(
    "password|secret|token|keydata|credential|jaas|overrides|security|registry|settings|properties|configs"
    "|^(options|url|cluster)$"
)
HARMLESS = {
    "security_protocol": "a name",
    "sasl_oauth_token_provider": "an object of the user's own class",
    "sasl_oauth_token_endpoint": "an address; one with a password in it is refused",
    "KeySetSettings.url": "an address; one with a password in it is refused",
    "ClientOptions.security": "its representation is its own; tested in tests/unit/client/security",
    "Job.settings": "the arguments of a client, whose secrets are of type Secret",
    "SourceOptions.consumer_settings": "as those of Job; tested below",
    "SinkOptions.settings": "as those of Job; tested below",
    "MemberInputs.cluster": "the topics that members see",
    "State.settings": "numbers of groups",
    "Recording.settings": "numbers of a consumer",
    "Variant.settings": "numbers of a consumer",
    "configs": "of a topic",
    "broker_configs": "what AlterConfigs has stored; it takes no secrets",
    "group_configs": "of a group",
}


def classes() -> Iterator[ast.ClassDef]:
    for path in Path(kohort.__file__).parent.rglob("*.py"):
        if path.parent.name == "messages":
            continue
        text = path.read_text(encoding="utf-8")
        if re.search("@dataclass|NamedTuple", text):
            yield from (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))


def shown(kind: ast.ClassDef) -> list[str]:
    """The fields that its representation shows, and that may hold a secret in clear."""
    makers = [ast.unparse(one) for one in (*kind.decorator_list, *kind.bases)]
    is_generated = any(
        one.startswith(("dataclass", "NamedTuple")) and "repr=False" not in one for one in makers
    )
    if not is_generated or any(getattr(one, "name", "") == "__repr__" for one in kind.body):
        return []
    return [
        one.target.id
        for one in kind.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and MAY_HOLD_ONE.search(one.target.id)
        and "Secret" not in ast.unparse(one.annotation)
        and (one.value is None or "repr=False" not in ast.unparse(one.value))
    ]


def test_a_class_that_may_hold_a_secret_does_not_show_it() -> None:
    """Security scenario 58. What is shown is known to be harmless, each with its reason."""
    found = {(one.name, name) for one in classes() for name in shown(one)}
    assert {("SecuritySettings", "security_protocol"), ("SourceOptions", "consumer_settings")} <= found
    leaks = {f"{of}.{name}" for of, name in found if not {name, f"{of}.{name}"} & HARMLESS.keys()}
    assert leaks == set()
    assert HARMLESS.keys() <= {name for _, name in found} | {f"{of}.{name}" for of, name in found}


JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{CANARY}";'
SECURED = {
    "kafka.bootstrap.servers": "h:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": JAAS,
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.keystore.type": "PEM",
    "kafka.ssl.keystore.key": CANARY,
    "kafka.ssl.keystore.certificate.chain": "x",
    "kafka.ssl.key.password": CANARY,
}
MADE: dict[str, Callable[[], object]] = {
    "a source": lambda: parse_source_options(SECURED | {"subscribe": "t"}, streaming=False),
    "a sink": lambda: parse_sink_options(SECURED | {"topic": "t"}),
    "the source of a lake": lambda: SourceCluster(bootstrap="h:9092", options=SECURED),
    "the options of serve": lambda: parse(
        [
            *("--set", f"ssl.key.password={CANARY}", "--cluster", f"postgresql://u:{CANARY}@h/d"),
            *("--user", f"alice:{CANARY}"),
        ]
    ),
    "a token": lambda: read_client_initial(f"n,,\x01auth=Bearer {CANARY}\x01\x01".encode()),
    "a secret": lambda: Secret(CANARY),
}


@pytest.mark.parametrize("what", MADE)
def test_what_is_made_of_a_secret_shows_nothing_of_it(what: str) -> None:
    """Security scenario 58. See security 9."""
    made = MADE[what]()
    assert CANARY not in f"{made} {made!r} {[made]}"
