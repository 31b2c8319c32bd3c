"""The end of a stream reader: Spark sends SIGTERM, twice, and calls ``stop()`` only if something unwinds."""

import signal
import sys
from types import FrameType

_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def stop_on_sigterm() -> bool:
    """Let SIGTERM end this process in order, so that Spark's runner calls ``stop()`` of its reader.

    Only in the process that runs a stream's reader, and safe to call again; says whether it is that process.
    Call it in the first offset method: other processes make readers too.
    """
    if not _is_runner():
        return False
    signal.signal(signal.SIGTERM, leave)
    return True


def leave(_number: int, _frame: FrameType | None) -> None:
    """Unwind, and let no second signal interrupt ``stop()``."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


def _is_runner() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _RUNNER
