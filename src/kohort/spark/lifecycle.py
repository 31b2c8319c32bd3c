"""What Spark does with Python's processes, and how we live with it.

A stream reader's process gets SIGTERM, twice, and ``stop()`` is called only if something unwinds. A worker's
collects garbage after every task.
"""

import gc
import signal
import sys
from types import FrameType

_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
_WORKER = "pyspark.daemon"
_seen_modules = 0


def stop_on_sigterm() -> bool:
    """Let SIGTERM end this process in order, so that Spark's runner calls ``stop()`` of its reader.

    Only in the process that runs a stream's reader, and safe to call again; says whether it is that process.
    Call it in the first offset method: other processes make readers too.
    """
    if not _is(_RUNNER):
        return False
    signal.signal(signal.SIGTERM, leave)
    return True


def leave(_number: int, _frame: FrameType | None) -> None:
    """Unwind, and let no second signal interrupt ``stop()``."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


def spare_the_collector() -> None:
    """Take what is loaded for good out of the collections that Spark's workers run after every task.

    With Arrow and numpy that is 25 ms of processor time a task: more than a small task itself.
    Call it when a task begins: what the one before has left is collected by then, and only what modules have
    brought since is set aside. Does nothing in other processes.
    """
    global _seen_modules  # of this process: set aside already
    if len(sys.modules) != _seen_modules and _is(_WORKER):
        _seen_modules = len(sys.modules)
        gc.freeze()


def _is(module: str) -> bool:
    """Whether this process was started to run that module."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == module
