"""Which decoder reads a section: numpy's at once, the compiled one when there is work to pay for it."""

import importlib.util
import logging
import threading
from typing import TYPE_CHECKING

from kohort.client.columnar.errors import MissingExtraError
from kohort.model.errors import KohortError
from kohort.records.columns import lanes, walk

if TYPE_CHECKING:
    from kohort.records.columns.read import Decoder
    from kohort.records.columns.spans import Section, Spans

_log = logging.getLogger(__name__)

# Loading numba takes as long as numpy needs for about so many records.
_WORTH_COMPILING = 2_000_000
# The fixed cost of a hundred operations of numpy is that of a few records in Python.
_FEW_RECORDS = 32


class Automatic:
    """Begins with numpy. After much work it loads numba, if that is installed, in the background."""

    def __init__(self, worth_compiling: int = _WORTH_COMPILING) -> None:
        self._left = worth_compiling
        self._compiled: Decoder | None = None
        self._loading: threading.Thread | None = None

    def __call__(self, section: "Section") -> "Spans":
        if self._compiled is not None:
            return self._compiled(section)
        records = section.records
        self._left -= records
        if self._left < 0 and self._loading is None:
            self._loading = threading.Thread(target=self._load, name="kohort numba", daemon=True)
            self._loading.start()
        return walk.decode(section) if records < _FEW_RECORDS else lanes.decode(section)

    def wait(self) -> bool:
        """Until loading ended, if it began; whether the compiled decoder is used from now on."""
        if self._loading is not None:
            self._loading.join()
        return self._compiled is not None

    def _load(self) -> None:
        if importlib.util.find_spec("numba") is None:
            return
        try:
            self._compiled = _compiled()
        except Exception:
            # An accelerator that does not start is no reason to stop reading.
            _log.warning("numba is installed and cannot be used; decoding with numpy", exc_info=True)


def _compiled() -> "Decoder":
    from kohort.records.batch import NewRecord, build_batch
    from kohort.records.columns import compiled, read  # numba: most of a second

    # Compiles, or takes what was compiled before from the cache: not in the middle of somebody's reading.
    sample = build_batch([NewRecord(0, b"k", b"v", [("h", b"v")])])
    for _ in read.read_columns(sample, decoder=compiled.decode):
        pass
    return compiled.decode


AUTOMATIC = Automatic()  # one for the process: what it has loaded serves all readers


def decoder_of(name: str) -> "Decoder":
    """The decoder of that name: ``auto``, ``numpy``, ``numba`` or ``python``."""
    match name:
        case "auto":
            return AUTOMATIC
        case "numpy":
            return lanes.decode
        case "python":
            return walk.decode
        case "numba":
            try:
                return _compiled()
            except ModuleNotFoundError as error:
                raise MissingExtraError("decoding with numba", error.name, "fast") from error
        case _:
            raise KohortError(f"there is no decoder {name!r}", hint="there are auto, numpy, numba and python")
