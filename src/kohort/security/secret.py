"""Values that must not be shown: passwords, keys, tokens."""

import hmac
import logging
import os
import re
import stat
from pathlib import Path
from typing import Self

from kohort.model.errors import KohortError

logger = logging.getLogger("kohort.secrets")

_ENVIRONMENT = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class SecretError(KohortError, ValueError):
    """The file or environment variable of a secret cannot be read."""


class Secret:
    """A secret, or where to read it. Only ``reveal`` gives it away; ``repr``, ``str`` and ``format`` do not.

    A secret from a file or an environment variable is read again at each ``reveal``: a new password works
    without a restart.
    """

    __slots__ = ("_path", "_text", "_variable")

    def __init__(self, text: str = "", *, path: str = "", variable: str = "") -> None:
        self._text = text
        self._path = path
        self._variable = variable

    @classmethod
    def file(cls, path: str | Path) -> Self:
        """The content of a file, without its last line break."""
        return cls(path=str(path))

    @classmethod
    def env(cls, name: str) -> Self:
        """The value of an environment variable."""
        return cls(variable=name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """A secret in a command, file or option: ``@PATH``, ``env:NAME``, ``${env:NAME}``, or itself.

        ``@@x`` stands for the secret ``@x``.
        """
        if text.startswith("@@"):
            return cls(text[1:])
        if text.startswith("@"):
            return cls.file(text[1:])
        if found := _ENVIRONMENT.fullmatch(text):
            return cls.env(found[1] or found[2])
        return cls(text)

    @property
    def is_literal(self) -> bool:
        """Whether the secret itself was given, and not where to read it."""
        return not self._path and not self._variable

    def reveal(self) -> str:
        """The secret itself; raises SecretError if its file or variable cannot be read."""
        if self._path:
            return _read(Path(self._path).expanduser())
        if self._variable:
            if self._variable not in os.environ:
                raise SecretError(f"the environment variable {self._variable} of a secret is not set")
            return os.environ[self._variable]
        return self._text

    def fixed(self) -> "Secret":
        """A secret that needs neither the file nor the variable: for processes that have neither."""
        return Secret(self.reveal())

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._text or self._path or self._variable)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        same_source = (self._path, self._variable) == (other._path, other._variable)
        return hmac.compare_digest(self._text.encode(), other._text.encode()) and same_source

    def __hash__(self) -> int:
        return hash((self._text, self._path, self._variable))


_readable: set[Path] = set()  # files that were warned of: they are read at each log-in


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if mode & stat.S_IROTH and path not in _readable:
            _readable.add(path)
            logger.warning("the file %s of a secret can be read by every user: chmod 600 %s", path, path)
        if mode & stat.S_IWOTH:
            raise SecretError(
                f"the file {path} of a secret can be changed by every user", hint=f"chmod 600 {path}"
            )
        text = path.read_text()
    except OSError as error:
        raise SecretError(f"cannot read the file {path} of a secret: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecretError(f"the file {path} of a secret is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
