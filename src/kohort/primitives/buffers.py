"""The kinds of bytes that can be read in place."""

Buffer = bytes | bytearray | memoryview
