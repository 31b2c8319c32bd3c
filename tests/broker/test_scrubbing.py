"""A running broker reads its segments again, and says what has changed on the disk."""

import logging
from pathlib import Path

import pytest
from tests.broker.asking import append, batch, create, eventually, fetch, part
from tests.broker.raw import Raw

from kohort.broker.clock import VirtualClock
from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.testing.faults import FakeDisk

LARGE = "x" * 700_000  # two of them do not fit into the smallest segment


def test_damage_is_logged_once_and_fetched_as_corrupt_message(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = FakeDisk(), VirtualClock()
    caplog.set_level(logging.ERROR, "kohort.maintenance")
    with Broker() as host:  # lends its loop
        server = Server(Settings(port=0, data=Path("data")), clock=clock, disk=disk)
        address = str(host.run(server.start()))
        try:
            with Raw(address) as raw:
                create(raw, "t", segment_bytes=1_048_576, retention_ms=-1)
                append(raw, "t", batch(LARGE))
                append(raw, "t", batch(LARGE))
                disk.open("data/t-0/00000000000000000000.log").write(b"?", 1_000)

                async def wait_two_days() -> None:
                    clock.advance(2 * 86_400_000)

                def is_found() -> bool:
                    host.run(wait_two_days())
                    code: int = fetch(raw, "t").error_code
                    return code == ErrorCode.CORRUPT_MESSAGE

                eventually(is_found)
                host.run(wait_two_days())
                assert fetch(raw, "t", part(offset=1)).error_code == 0
                (line,) = [record.getMessage() for record in caplog.records if "damaged" in record.msg]
                assert line.startswith("t-0 is damaged: data/t-0/00000000000000000000.log: bytes 0 to ")
                assert "kohort data repair" in line
        finally:
            host.run(server.stop())
