"""Tasks and threads are started in few places, each of which owns what it starts."""

import ast
from collections.abc import Iterator
from pathlib import Path

import kohort

SOURCE = Path(kohort.__file__).parent
STARTING = {"create_task", "ensure_future", "run_in_executor", "to_thread", "submit", "Thread", "TaskGroup"}

OWNERS = {
    "log/background.py": "the owner itself",
    "log/files/flusher.py": "a part of a round that fails is a failed sync of its logs",
    "log/files/removal.py": "a removal that fails is repeated by the maintenance",
    "log/files/log_offsets.py": "a checkpoint that fails is repeated by the maintenance",
    "log/postgres/compaction.py": "a thread that fails fails the round of maintenance that awaits it",
    "log/postgres/reading.py": "a thread that fails fails the read that awaits it",
    "log/postgres/storage.py": "a lane answers each append it was given, also with what it could not do",
    "broker/dispatch.py": "a request that fails is answered, also when it is abandoned",
    "broker/listening.py": "a connection that cannot be set up is closed",
    "broker/topic_runtime.py": "a partition that cannot be loaded is loaded again",
    "broker/gate.py": "a log-in that fails is answered, or its connection is closed",
    "broker/key_sets.py": "keys that cannot be read are read again, and the old ones stay",
    "broker/coordinator.py": "a topic that cannot be created fails the requests that share the attempt",
}


def starts(module: Path) -> Iterator[int]:
    """The lines on which a module starts a task or a thread."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in STARTING:
                yield node.lineno


def test_only_owners_start_tasks_and_threads() -> None:
    modules = [*(SOURCE / "broker").rglob("*.py"), *(SOURCE / "log").rglob("*.py")]
    found = {path.relative_to(SOURCE).as_posix() for path in modules if any(starts(path))}
    assert found == OWNERS.keys()
