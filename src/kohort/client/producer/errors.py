"""What can go wrong with a record on its way to a partition; each text names the setting to look at.

KohortError
 ├── ProducerClosedError     the producer was closed before the record was delivered
 ├── RecordTooLargeError     larger than a request may be
 ├── BufferFullError         no room for the record within max_block_ms
 ├── DeliveryTimeoutError    not acknowledged within delivery_timeout_ms
 ├── DoubtfulDeliveryError   sent, but it is unknown for good whether it was stored
 └── WaitInCallbackError     a callback waits for what only its own thread can do
"""

from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition


class ProducerClosedError(KohortError):
    """The producer is closed: nothing is sent any more."""


class RecordTooLargeError(KohortError):
    """One record that is larger than a whole request may be. Nothing was sent."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        super().__init__(
            f"a record of {size:,} bytes for topic {topic!r} is larger than max_request_size ({limit:,})",
            hint="raise max_request_size here and max.message.bytes of the topic, or send smaller records",
        )


class BufferFullError(KohortError):
    """The buffer stayed full for max_block_ms. Nothing was sent of this record."""

    def __init__(self, waited_ms: int, limit: int) -> None:
        super().__init__(
            f"no room for the record after {waited_ms:,} ms: {limit:,} bytes wait to be sent",
            hint="the brokers take records more slowly than they come; see max_buffered_bytes, max_block_ms",
            retriable=True,
        )


class DeliveryTimeoutError(KohortError):
    """The time of a record is over. Whether it was stored is not known if it was ever sent."""

    def __init__(
        self, partition: TopicPartition, waited_ms: int, attempts: int, last: KohortError | None
    ) -> None:
        sent = f"sent {attempts} times" if attempts > 1 else "sent once" if attempts else "never sent"
        why = f"; last: {last.args[0]}" if last is not None else ""
        super().__init__(
            f"records for {partition} were not acknowledged within {waited_ms:,} ms ({sent}){why}",
            hint="is the leader reachable? delivery_timeout_ms says how long to try",
        )
        self.partition = partition
        self.attempts = attempts


class DoubtfulDeliveryError(KohortError):
    """A batch whose answer was lost and that the broker forgot. Sent again, it might be there twice."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"records for {partition} may be stored or not: their acknowledgement was lost, and the broker "
            "has forgotten them",
            hint="look for them in the topic before you send them again; records after them are not affected",
        )
        self.partition = partition


class WaitInCallbackError(KohortError):
    """A callback of a future runs in the producer's own thread: it would wait for itself."""

    def __init__(self) -> None:
        super().__init__(
            "a callback cannot wait for the producer that runs it",
            hint="send from it without waiting, or let another thread flush, close and ask for results",
        )
