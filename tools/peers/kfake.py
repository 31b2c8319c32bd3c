"""kfake, franz-go's fake cluster, as a process: another broker to hold ours against."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tools.peers.fetch import go_programs

LISTENING = "kfake: listening on "


@contextmanager
def kfake_broker() -> Iterator[str]:
    """Start kfake on a free port of loopback and yield its address; it ends with the block."""
    process = subprocess.Popen(
        [str(go_programs() / "kfake")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith(LISTENING):
            raise RuntimeError(f"kfake did not start: {line!r}")
        yield line.removeprefix(LISTENING).strip()
    finally:
        process.stdin.close()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
