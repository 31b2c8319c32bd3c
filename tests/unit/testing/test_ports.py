"""A port that is held: others may listen there, nobody else is given it."""

import socket
import sys

import pytest

from kohort.testing.ports import HeldPort


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares ports this way")
def test_a_held_port_can_be_listened_on_again_and_again_and_refuses_in_between() -> None:
    with HeldPort() as port:
        address = ("127.0.0.1", port.number)
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
            with socket.create_server(address) as listening, socket.create_connection(address):
                listening.accept()[0].close()
        with socket.socket() as another, pytest.raises(OSError, match="in use"):
            another.bind(address)
