"""How a JVM is started here: quickly, small, with its log where we can read it."""

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
    class_path: str, main_class: str, *args: str, heap: str = "128m", log_config: Path | None = None
) -> list[str]:
    """The argument list that runs a main class; its log goes to standard error if a config is named."""
    logging = [] if log_config is None else [f"-Dlog4j2.configurationFile={log_config}"]
    return ["java", *FLAGS, f"-Xmx{heap}", *logging, "-cp", class_path, main_class, *args]


def write_log_config(folder: Path, level: str = "WARN") -> Path:
    """Write a log4j2 configuration that logs to standard error, and return its path."""
    path = folder / "log4j2.properties"
    path.write_text(LOG4J.format(level=level))
    return path
