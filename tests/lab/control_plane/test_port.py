"""A held port: nobody gets it by chance, and the API server may bind it."""

from __future__ import annotations

import socket

import pytest

from lab.control_plane.port import HeldPort


def test_a_held_port_is_refused_to_whoever_wants_it_alone() -> None:
    held = HeldPort()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", held.number))
    held.release()


def test_a_held_port_can_be_shared_and_connections_reach_the_one_who_listens() -> None:
    held = HeldPort()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", held.number))
        server.listen()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", held.number), timeout=2):
                server.accept()[0].close()
    held.release()


def test_ports_held_at_the_same_time_differ() -> None:
    ports = [HeldPort() for _ in range(50)]
    assert len({port.number for port in ports}) == 50
    for port in ports:
        port.release()


def test_nobody_listens_on_a_held_port() -> None:
    held = HeldPort()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", held.number), timeout=2)
    held.release()
