"""What can go wrong between bytes and messages.

KohortError
├── ProtocolError        the peer sent something that is not the protocol
│   └── DecodeError      bytes that are not the message they should be
│       ├── TrailingBytesError   a whole message, and more
│       └── TooManyElementsError   a message of more array elements than the caller allows
└── EncodeError          we tried to send a message that cannot be written
"""

from kohort.model.errors import KohortError, ProtocolError


class DecodeError(ProtocolError):
    """Bytes that are not the message they should be. Says which message, version and field."""


class TrailingBytesError(DecodeError):
    """A whole message with something after it. ``message`` is what was read."""

    def __init__(self, where: str, left: int, message: object) -> None:
        super().__init__(f"{where}: {left} bytes after its end")
        self.message = message


class TooManyElementsError(DecodeError):
    """A message, read or to be written, whose arrays have more elements than the caller allows."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: too many elements in one message")


class EncodeError(KohortError):
    """A message that cannot be written in that version: a bug of the caller. Says which field."""
