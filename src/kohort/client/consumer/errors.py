"""What a consumer says of the way it is used."""

from kohort.model.errors import KohortError


class WakeupError(KohortError):
    """``wakeup`` was called: the poll that was waiting, or the next one, ends here. Nothing is lost."""

    def __init__(self) -> None:
        super().__init__("the consumer was woken up")


class ConsumerClosedError(KohortError):
    """The consumer is closed, or was never started."""

    def __init__(self, message: str = "the consumer is closed") -> None:
        super().__init__(message, hint="use it inside a with block; a closed consumer is not opened again")


class ConcurrentUseError(KohortError):
    """A consumer is for one thread, or one task, at a time; only ``wakeup`` may come from another.

    Nor may a callback ("callback") begin what it is a part of.
    """

    def __init__(self, who: str) -> None:
        if who == "callback":
            super().__init__(
                "the consumer is in the middle of a call that waits for this callback",
                hint="poll, unsubscribe and close when the callback has returned",
            )
            return
        super().__init__(
            f"the consumer is being used by another {who}",
            hint=f"give each {who} a consumer of its own; they can share a group",
        )


class NoGroupError(KohortError):
    """The call needs a group, and the consumer was made without one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"cannot {what} without a group", hint="set group_id, or assign and seek by hand")


class PositionTimeoutError(KohortError):
    """It took too long to find out where a partition is read from."""

    def __init__(self, partition: object, millis: float) -> None:
        super().__init__(
            f"the position of {partition} was not known after {millis:g} ms",
            hint="is its leader there? else raise default.api.timeout.ms",
            retriable=True,
        )
