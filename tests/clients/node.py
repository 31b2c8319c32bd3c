"""A broker on one directory, as a process."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from kohort.testing.process import BrokerProcess


class Node(BrokerProcess):
    """A broker on one directory and one port. A test that ends well has seen no traceback in its log."""

    def __init__(self, data: Path, configs: Mapping[str, str | int] | None = None, *options: str) -> None:
        super().__init__("--data", str(data), *options, configs=configs)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        said = self.said
        try:
            if self.is_running:
                self.stop()
            assert kind is not None or "Traceback" not in said(), said()
        finally:
            super().__exit__(kind, error, traceback)
