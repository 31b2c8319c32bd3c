"""What log lines look like: for people, or one JSON object a line for machines. Always on stderr."""

import logging
import sys
import time

from kohort.primitives.strings import visible


class HumanLines(logging.Formatter):
    """``12:34:56.789 WARNING server: …``; the prefix all our loggers share is left out."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix("kohort.")
        message = visible(record.getMessage())
        text = f"{clock}.{int(record.msecs):03} {record.levelname:7} {name}: {message}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        import json  # only those who asked for it pay for it

        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{clock}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def log_to_stderr(style: str, level: str) -> None:
    """Send everything from ``level`` on to stderr; ``style`` is "human" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else HumanLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
