"""How a JVM is started here: quickly, small, with its log where we can read it."""

from collections.abc import Sequence
from pathlib import Path

# One tier of compilation and the serial collector: these processes live for seconds on two shared cores.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Dfile.encoding=UTF-8")

LOG4J = """rootLogger.level = {level}
rootLogger.appenderRef.err.ref = ERR
appender.err.type = Console
appender.err.name = ERR
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = [%d] %p %m (%c)%n
"""


def command(
    class_path: str, main_class: str, *args: str, heap: str = "128m", options: Sequence[str] = ()
) -> list[str]:
    """The argument list that runs a main class."""
    return ["java", *FLAGS, f"-Xmx{heap}", *options, "-cp", class_path, main_class, *args]


def logging_to(config: Path) -> str:
    """The option that names a logging configuration."""
    return f"-Dlog4j2.configurationFile={config}"


def write_log_config(folder: Path, level: str = "WARN") -> Path:
    """Write a log4j2 configuration that logs to standard error, and return its path."""
    path = folder / "log4j2.properties"
    path.write_text(LOG4J.format(level=level))
    return path
