"""What values are taken for. Apart from ``values``, so that the command line can offer them at no cost."""

from enum import StrEnum


class Values(StrEnum):
    """What the values of the topics are."""

    BINARY = "binary"
    UTF8 = "utf8"
    JSON = "json"
