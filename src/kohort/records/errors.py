"""What can be wrong with the bytes of a log.

KohortError
 ├── CorruptBatchError            not a record batch, or one that contradicts itself
 │    ├── LegacyFormatError       magic 0 or 1: a message set from before Kafka 0.11
 │    ├── CompressionError        the payload does not decompress, or has an unknown codec
 │    └── OversizedPayloadError   the payload would decompress to more than was allowed
 ├── MalformedRecordError         a record of __consumer_offsets that cannot be read or written
 └── UnsupportedValueError        … that a newer version wrote: refuse to serve rather than guess
"""

from kohort.model.errors import KohortError


class CorruptBatchError(KohortError):
    """Bytes that are no record batch, or a batch that contradicts itself."""


class LegacyFormatError(CorruptBatchError):
    """A message set of magic 0 or 1, which Kohort neither stores nor reads."""


class CompressionError(CorruptBatchError):
    """A payload that does not decompress, or whose codec is unknown."""


class OversizedPayloadError(CorruptBatchError):
    """A payload that decompresses to more than the reader allows."""


class MalformedRecordError(KohortError):
    """A record of ``__consumer_offsets`` that cannot be read, or a value that has no encoding."""


class UnsupportedValueError(KohortError):
    """A record of ``__consumer_offsets`` in a version this release does not know."""
