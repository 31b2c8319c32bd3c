"""How many files and connections a broker's process may have open at once."""

import resource
from contextlib import suppress

# Where there is "no limit" a system may still refuse to set one that large; macOS takes this.
_WITHOUT_LIMIT = 10_240


def raise_file_limit() -> None:
    """Allow this process as many open files as it may allow itself.

    Shells often start a process with 1,024, while each partition that is written to has a file open, and each
    connection is one too. Java does the same for Kafka.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WITHOUT_LIMIT if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    with suppress(ValueError, OSError):  # then it stays as it was
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
