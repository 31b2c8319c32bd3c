"""The members as processes: started, killed, asked to leave, and gone when the tour is over."""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from examples.demo.ledger import Done, OrderLedger

from kohort.model.errors import KohortError

HERE = Path(__file__).parent
LIBRARIES = {
    "kafka-python": "with_kafka_python.py",
    "confluent-kafka": "with_confluent.py",
    "Spark": "with_spark.py",
}
COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_LEAVE_SECONDS = 10.0
_LINE_LIMIT = 2**24


class MemberDiedError(KohortError):
    """A member has ended by itself."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What all members know."""

    bootstrap: str
    topic: str
    group: str
    session_ms: int
    logs: Path
    protocol: str = "classic"


class DemoMember:
    """The parent's end of one process."""

    def __init__(self, name: str, library: str, colour: str, ledger: OrderLedger) -> None:
        self.name = name
        self.library = library
        self.colour = colour
        self.is_gone = False
        self._ledger = ledger
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self._log = Path()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, place: MemberSettings) -> None:
        arguments = [place.bootstrap, place.topic, place.group, self.name, str(place.session_ms)]
        if place.protocol != "classic":
            arguments.append(place.protocol)
        self._log = place.logs / f"{self.name}.log"
        with self._log.open("w") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(HERE / LIBRARIES[self.library]), *arguments),
                stdin=asyncio.subprocess.PIPE,  # when we die, it ends: so does the member
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_LINE_LIMIT,
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            with suppress(ValueError):  # a line that a kill has cut off
                match json.loads(line):
                    case list(rows):
                        self._ledger.note(self.name, [Done(*row) for row in rows])
                    case dict(answer):
                        self._answers.put_nowait(answer)

    async def ask(self, *command: str) -> dict[str, object]:
        """Tell the process something, and wait for the answer."""
        self.tell(*command)
        return await self.answer()

    def tell(self, *command: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def answer(self) -> dict[str, object]:
        """Its next answer; raises MemberDiedError if there will be none."""
        assert self._reading is not None
        waiting = asyncio.ensure_future(self._answers.get())
        try:
            await asyncio.wait([waiting, self._reading], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise self._died()
            return waiting.result()
        finally:
            waiting.cancel()

    def check(self) -> None:
        """Raise MemberDiedError if it has ended and that was not wanted."""
        assert self._process is not None
        if not self.is_gone and self._process.returncode is not None:
            raise self._died()

    def _died(self) -> MemberDiedError:
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        return MemberDiedError(f"{self.name} ({self.library}) has ended by itself: {' '.join(last)}")

    async def kill(self) -> None:
        """``kill -9``. What it had reported is in the ledger afterwards."""
        self._signal(signal.SIGKILL)
        await self._gone()

    async def leave(self) -> None:
        """Let it commit and leave; it is killed if it takes too long."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._gone()
        except TimeoutError:
            await self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self.is_gone = True
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _gone(self) -> None:
        assert self._process is not None
        assert self._reading is not None
        await self._process.wait()
        await self._reading

    async def end(self) -> None:
        """End the process and what it has started, a JVM for example: all that is in its session."""
        if self._process is None:
            return
        self.is_gone = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._gone()


class Company:
    """All members there ever were, by name."""

    def __init__(self, place: MemberSettings) -> None:
        self.place = place
        self.ledger = OrderLedger()
        self.members: dict[str, DemoMember] = {}

    async def hire(self, name: str, library: str) -> DemoMember:
        """A new member: its process is started, and joins when it is ready."""
        colour = COLOURS[len(self.members) % len(COLOURS)]
        member = self.members[name] = DemoMember(name, library, colour, self.ledger)
        await member.start(self.place)
        return member

    def check(self) -> None:
        for member in self.members.values():
            member.check()

    async def end(self) -> None:
        for member in self.members.values():
            await member.end()
