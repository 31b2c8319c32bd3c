"""A piece of a log, as columns."""

from collections.abc import Iterator

from kohort.primitives.buffers import Buffer
from kohort.records.columns.few import few_columns
from kohort.records.columns.lanes import many_columns
from kohort.records.columns.sections import sections
from kohort.records.columns.spans import Columns, Section
from kohort.records.columns.table import BatchTable, Sifting, find_batches, sift
from kohort.records.errors import CorruptBatchError

# A hundred operations of numpy cost as much as making this many objects.
FEWEST_RECORDS = 64
EVERYTHING = Sifting()


def read_columns(log: Buffer | BatchTable, sifting: Sifting = EVERYTHING) -> Iterator[Columns]:
    """The records of all whole batches that are wanted, a few megabytes at a time.

    Of a batch that ``sifting.start`` lies in, all records come. Raises ``CorruptBatchError`` for a batch that
    cannot be read, after the records of all batches before it.
    """
    table = log if isinstance(log, BatchTable) else find_batches(log)
    for section in sections(sift(table, sifting), sifting.limit):
        try:
            columns = columns_of(section)
        except CorruptBatchError as error:
            good = _good_batches(section)
            if good:
                yield columns_of(section.part(slice(0, good)))
            raise _named(section.part(slice(good, good + 1)), error) from error
        yield columns


def _good_batches(section: Section) -> int:
    """How many batches of a section can be read before the first that cannot."""
    good, bad = 0, len(section.starts)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            columns_of(section.part(slice(good, middle)))
        except CorruptBatchError:
            bad = middle
        else:
            good = middle
    return good


def _named(batch: Section, found: CorruptBatchError) -> CorruptBatchError:
    """What is wrong with one batch, in the words of the decoder that looks at one record at a time."""
    try:
        few_columns(batch)
    except CorruptBatchError as error:
        found = error
    return CorruptBatchError(f"batch at offset {batch.base_offsets[0]}: {found.args[0]}")


def columns_of(section: Section) -> Columns:
    """The records of one section."""
    return few_columns(section) if section.records < FEWEST_RECORDS else many_columns(section)
