"""Kafka's answers, kept: so that Kohort can be compared with Kafka where no JVM is.

``python -m tests.interop.scripts.recorded [SCRIPT …]`` plays scripts against a fresh Kafka and writes them.
"""

import json
import sys
from pathlib import Path
from typing import Final

from tests.interop.scripts.catalogue import SCRIPTS
from tests.interop.scripts.compare import run_script
from tests.interop.scripts.plain import Plain
from tests.interop.targets import SETTINGS
from tools.peers.kafka_broker import kafka_broker

FOLDER: Final = Path(__file__).resolve().parent.parent / "recorded"


def load(name: str) -> dict[str, Plain]:
    """What Kafka answered to a script."""
    answers: dict[str, Plain] = json.loads((FOLDER / f"{name}.json").read_text())
    return answers


def as_stored(answers: dict[str, Plain]) -> dict[str, Plain]:
    """Answers as they would come back from a file."""
    stored: dict[str, Plain] = json.loads(json.dumps(answers))
    return stored


def save(name: str, answers: dict[str, Plain]) -> None:
    """Write answers down, one step a line, so that a change shows as a line."""
    lines = (f"{json.dumps(step)}: {json.dumps(answer)}" for step, answer in answers.items())
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(wanted: list[str]) -> int:
    """Record these scripts; all, if none is named, and then those of scripts that are gone disappear."""
    FOLDER.mkdir(exist_ok=True)
    for stale in FOLDER.glob("*.json"):
        if not wanted:
            stale.unlink()
    with kafka_broker(SETTINGS) as broker:
        for name in wanted or SCRIPTS:
            save(name, run_script(SCRIPTS[name], (broker.host, broker.port)))
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
