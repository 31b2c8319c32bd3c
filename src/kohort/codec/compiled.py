"""Bytes to messages and back, for any message in any of its versions.

Decoders and encoders are compiled from the declarations when first used, and kept.
"""

import struct
from typing import TypeVar, cast

from kohort.codec.decoder import Decoder, compile_decoder
from kohort.codec.diagnosis import explain
from kohort.codec.encoder import Encoder, compile_encoder
from kohort.codec.errors import DecodeError, EncodeError, TooManyElementsError, TrailingBytesError
from kohort.codec.schema import Message
from kohort.codec.source import describe

__all__ = [
    "DecodeError",
    "EncodeError",
    "TooManyElementsError",
    "decode",
    "decode_request",
    "encode",
    "encode_parts",
]

NO_LIMIT = 2**62

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(message: type[M], version: int, data: bytes, position: int = 0, at_most: int = NO_LIMIT) -> M:
    """Read a message of that version from ``position`` to the end of ``data``.

    Whatever the bytes are, the result is a message or a DecodeError, in time and memory bounded by their
    number. Values are copies, except ``records``: a view of ``data``, which keeps all of it alive. Fields
    the version lacks have their defaults; unknown tagged fields are skipped. More than ``at_most`` elements
    in all arrays together are a TooManyElementsError, raised before the array that has them is read.
    """
    decoder = _decoders.get((message, version))
    if decoder is None:
        decoder = _decoder(message, version)
    try:
        return cast(M, decoder(data, position, at_most))
    except (struct.error, IndexError) as error:
        raise DecodeError(f"{describe(message, version)}: ends in the middle of a field") from error
    except UnicodeDecodeError as error:
        raise DecodeError(f"{describe(message, version)}: a string is not UTF-8: {error.reason}") from error


def decode_request(message: type[M], version: int, data: bytes, position: int, at_most: int = NO_LIMIT) -> M:
    """As ``decode``, but what follows the message is ignored, as Kafka ignores it.

    librdkafka relies on that: its Metadata request for all topics has three bytes too many.
    """
    try:
        return decode(message, version, data, position, at_most)
    except TrailingBytesError as error:
        return cast(M, error.message)


def encode(message: Message, version: int) -> bytes:
    """Write a message in that version.

    A field the version lacks is left out whatever its value, so one filled message serves all versions. A
    value that has no place on the wire (null where none is allowed, a number too large) is an EncodeError.
    """
    out: list[bytes | memoryview] = []
    try:
        _encoder(type(message), version)(message, out, [], NO_LIMIT)
        return b"".join(out)
    except _UNWRITABLE as error:
        raise EncodeError(explain(message, version, error)) from error


def encode_parts(message: Message, version: int, at_most: int = NO_LIMIT) -> list[bytes | memoryview]:
    """As ``encode``, but in parts to be sent one after the other: large ``records`` are not copied.

    More than ``at_most`` elements in all arrays together (those of numbers are not counted) are a
    TooManyElementsError.
    """
    out: list[bytes | memoryview] = []
    large: list[int] = []
    try:
        _encoder(type(message), version)(message, out, large, at_most)
        if not large:
            return [b"".join(out)]
        parts: list[bytes | memoryview] = []
        start = 0
        for index in large:
            parts.append(b"".join(out[start:index]))
            parts.append(out[index])
            start = index + 1
        if start < len(out):
            parts.append(b"".join(out[start:]))
    except _UNWRITABLE as error:
        raise EncodeError(explain(message, version, error)) from error
    return parts


_UNWRITABLE = (struct.error, TypeError, AttributeError, UnicodeEncodeError)


def _decoder(message: type[Message], version: int) -> Decoder:
    if not message.versions.includes(version):
        raise DecodeError(f"{describe(message, version)}: only versions {message.versions} are known")
    decoder = _decoders[message, version] = compile_decoder(message, version)
    return decoder


def _encoder(message: type[Message], version: int) -> Encoder:
    encoder = _encoders.get((message, version))
    if encoder is None:
        if not message.versions.includes(version):
            raise EncodeError(f"{describe(message, version)}: only versions {message.versions} are known")
        encoder = _encoders[message, version] = compile_encoder(message, version)
    return encoder
